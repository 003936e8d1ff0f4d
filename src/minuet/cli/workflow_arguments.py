"""What can be written on the command line about deployed workflows."""

from __future__ import annotations

from minuet.cli.parser import WORKFLOW_FILE, Commands, Parser, add, add_place, count

_REFERENCE = "name, name@tag or name@version; a name alone means its tag main"


def add_deploy(commands: Commands[Parser]) -> None:
    parser = add(
        commands,
        "deploy",
        "workflows:deploy",
        "store workflows under their names, as new versions",
        "Check workflows and store each as the next version under its name. A tag names the new\n"
        "version from then on. If one of the files has a problem, nothing is deployed. What has\n"
        "not changed since it was deployed gets no new version. The text of a file is kept with\n"
        "its version: where only comments and layout have changed, the new text replaces it.",
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help=WORKFLOW_FILE)
    parser.add_argument(
        "--tag", metavar="TAG", default="main", help="the tag that names them (default: main)"
    )
    parser.add_argument(
        "-m", "--message", metavar="TEXT", default="", help="stored with the version: what is new"
    )
    add_place(parser)


def add_workflows(commands: Commands[Parser]) -> None:
    group = commands.add_parser(
        "workflows",
        help="look at deployed workflows, move their tags, delete them",
        description="Look at deployed workflows, move their tags, and delete them.",
        allow_abbrev=False,
    )
    verbs = group.add_subparsers(title="commands", metavar="COMMAND", dest="verb", required=True)
    parser = add(verbs, "list", "workflows:list_workflows", "list deployed workflows by name")
    parser.add_argument("--after", metavar="NAME", default="", help="only names after this one")
    parser.add_argument(
        "--limit", metavar="N", type=count, default=100, help="at most this many (default: 100)"
    )
    add_place(parser)
    parser = add(verbs, "show", "workflows:show", "show a version of a workflow and its document")
    parser.add_argument("workflow", metavar="WORKFLOW", help=_REFERENCE)
    parser.add_argument(
        "--source", action="store_true", help="print only the text that was deployed"
    )
    add_place(parser)
    parser = add(
        verbs,
        "tag",
        "workflows:tag",
        "have a tag name a version",
        "Have a tag name a version that is deployed, from the next start on: an older one to go\n"
        "back to it, for example. Runs keep the version that they began with.",
    )
    parser.add_argument("workflow", metavar="WORKFLOW", help=_REFERENCE)
    parser.add_argument("tag", metavar="TAG", help="the tag, new or moved")
    add_place(parser)
    parser = add(
        verbs,
        "delete",
        "workflows:delete",
        "delete a workflow with all its versions",
        "Delete a workflow with all its versions and tags, so that its name can be used again,\n"
        "from version 1 on. Its runs stay and go on: they keep their plans. A workflow that\n"
        "starts it as a child fails until the name is deployed again.",
    )
    parser.add_argument("name", metavar="NAME", help="the name of the workflow")
    add_place(parser)
    parser = add(
        verbs,
        "stats",
        "overview:statistics",
        "show how the newest runs of each workflow went",
        "Show how the newest runs of each workflow went, deployed or not: how many completed, and\n"
        "how long those took.",
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="only this workflow")
    parser.add_argument(
        "--limit",
        metavar="N",
        type=count,
        default=100,
        help="count so many runs of each, the newest (default: 100)",
    )
    add_place(parser)
