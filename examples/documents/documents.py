"""The handlers of documents.yaml.

They are ordinary functions, so they run in threads and the worker goes on meanwhile. `seal` takes
longest: it keeps the result of each page as a step. After a crash it goes on with the next page.
"""

import hashlib

import minuet


@minuet.task
def extract(text: str) -> dict:
    pages = [page.strip() for page in text.split("---")]
    return {"pages": [page for page in pages if page]}


@minuet.task
def seal(pages: list[str], rounds: int, ctx: minuet.Context) -> list[str]:
    def work(page: str) -> str:
        return hashlib.pbkdf2_hmac("sha256", page.encode(), b"minuet", rounds).hex()[:16]

    return [ctx.step(f"page {n}", work, page) for n, page in enumerate(pages)]


@minuet.task
def index(pages: list[str]) -> dict:
    return {"words": len({word.lower() for page in pages for word in page.split()})}


@minuet.task
def summarise(pages: list[str]) -> str:
    return " / ".join(page.split(".")[0] for page in pages)
