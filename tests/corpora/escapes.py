"""Attempts to get out of the languages that documents are written in, or to exhaust a worker.

One list for each language and aim. None of them may succeed, and each must end within its limits:
the tests of a language try each alone, and `test_escapes.py` tries all of them in a worker.
"""

from __future__ import annotations

from typing import Any

HUNDRED = str(list(range(100)))

# ── conditions: CEL ───────────────────────────────────────────────────────────────────────────

CEL_ESCAPES = [
    "output.__class__.__mro__ == 1",
    "''.__class__ == 1",
    "output|attr('__class__')",
    "__import__('os').system('true') == 0",
    "eval('1') == 1",
    "open('/etc/passwd') == 1",
    "(lambda: 1)() == 1",
    "(x := 1) == 1",
    "f'{output}' == ''",
    "'{0}'.format_map(output) == ''",
    "output.__сlass__ == 1",  # a Cyrillic letter
    "ｏutput == 1",  # a full-width letter
    "[x for x in output] == []",
    "${7*7} == 49",
    "{{ output }}",
    "T(java.lang.Runtime).getRuntime().exec('true') == 0",
]

CEL_EXPENSIVE = [
    "'a' * 1000000000 == ''",
    "9**9**9 == 1",
    "range(1000000000) == []",
    "1" + "+1" * 20_000 + " > 1",
    "1" + "+1" * 1_000 + " > 1",
    "(" * 1000 + "true" + ")" * 1000,
    "[" * 1000 + "]" * 1000 + " == []",
    "output" + ".a" * 1000 + " == 1",
    "[1]" + ".map(x, x)" * 100 + " == []",
    "['" + "a" * 100 + "']" + ".map(x, x + x)" * 26 + "[0].size() > 1",
    " == ".join(["[1]" + ".map(x, [x, x])" * 26] * 2),
    "size('%s'.format([" + "[1]" + ".map(x, [x, x])" * 26 + "])) > 1",
    "cel.bind(a, [1], " + "cel.bind(a, a + a, " * 30 + "a == a" + ")" * 31,
    "'%.999999999f'.format([1.0]) == ''",
    "['x'].map(x, '%.1000f'.format([0.5])).map(t, t + t).map(t, t + t).map(t, t + t)"
    ".all(t, " + HUNDRED + ".all(i, !t.matches('(" + "[05]?" * 90 + "){2}x')))",
    "'a'.matches('" + "(" * 500 + ")" * 500 + "')",
    "'a'.matches('((((a{100}){100}){100}){100}){100}')",
    f"{HUNDRED}.all(i, {HUNDRED}.all(j, !'b'.matches('a{{900}}' + string(i * 100 + j))))",
    f"{HUNDRED}.all(i, {HUNDRED}.all(j, !'b'.matches('a{{1001}}' + string(i * 100 + j)) || true))",
    "[" + ", ".join(f"'b'.matches('a{{900}}{i}')" for i in range(150)) + "] == []",
    "!" * 2000 + "true",
    "-" * 2000 + "1 == 1",
    "true ? " * 500 + "true" + " : true" * 500,
    "'aaaaaaaaaa'" + ".replace('', 'aaaaaaaaaa')" * 12 + " == ''",
    "optional.of('a')" + ".optMap(v, v + v)" * 30 + ".value() == ''",
    f"{HUNDRED}.all(i, {HUNDRED}.all(j, {HUNDRED}.all(k, true)))",
]

# ── templates ─────────────────────────────────────────────────────────────────────────────────

TEMPLATE_ESCAPES = [
    "''.__class__",
    "''.__class__.__mro__[1].__subclasses__()",
    "''['__class__']",
    "a.__class__",
    "a.output.__class__.__init__.__globals__",
    "a.output['__class__']",
    "a.output['__cl' ~ 'ass__']",
    "a.output|attr('__class__')",
    "a.output|map(attribute='__class__')|list",
    "[a.output]|map('attr', '__class__')|list",
    "a.output|attr('\\x5f\\x5fclass\\x5f\\x5f')",
    "a.x.＿＿class＿＿",
    "a.x.__сlass__",
    "self._TemplateReference__context",
    "cycler.__init__.__globals__.os.popen('id').read()",
    "lipsum.__globals__['os']",
    "namespace(x=1)",
    "joiner()",
    "config.items()",
    "request.application",
    "get_flashed_messages.__globals__",
    "url_for.__globals__",
    "a.output.items()",
    "a.output.pop('x')",
    "a.list.append(1)",
    "a.output.update({})",
    "'{0.__class__}'.format(a.output)",
    "'{x.__class__}'.format_map(a.output)",
    "'%s'|format(a.output)",
    "'%(x)s' % a.output",
    "a.name|xmlattr",
    "a.name|safe",
    "a.name|e",
    "lambda: 1",
    "x := 1",
    "[x for x in a.list]",
    "f'{a.x}'",
    "__import__('os')",
    "open('/etc/passwd')",
    "range(10)",
    "dict(a=1)",
    "super()",
    "caller()",
    "_('x')",
    "a.x; b.y",
    "a.x }} {{ secrets",
]

TEMPLATE_EXPENSIVE = [
    "'a' * 10**9",
    "'a' * 1000000000",
    "[1] * 1000000000",
    "9**9**9",
    "2 ** 100000000",
    "'%1000000000d' % 1",
    "'{:>1000000000}'.format(1)",
    "''.join(['a'] * 1000)",
    "range(10**9)",
    "a.list|join(a.big)",
    "a.texts|map('replace', '', a.big)|list",
    "a.texts|map('join', a.big)|list",
    "a.big|replace('', a.big)",
    "a.big|replace('x', a.big)",
    "a.big" + "~a.big" * 500,
    "a.big" + "+a.big" * 90,
    "[" + ",".join(["a.big~a.big"] * 300) + "]",
    "a.list" + "|sort" * 90,
    "[" + ",".join(["a.list|sort"] * 300) + "]",
    "[" + ",".join(["a.list[::-1]"] * 300) + "]",
    "[" + ",".join(["a.list==a.list+[]"] * 220) + "]",
    "a.list|select('in', a.list)|list",
    "a.list|map('tojson')|map('upper')|map('lower')|map('trim')|map('replace','','"
    + "z" * 3000
    + "')|list",
    "1" + "+1" * 2_000,
    "1" + "+1" * 20_000,
    "(" * 1_000 + "1" + ")" * 1_000,
    "[" * 1_000 + "]" * 1_000,
    "not " * 1_000 + "1",
    "a.output" + ".x" * 1_000,
    "a" + "[0]" * 1_000,
    "1" * 5_000,
    "a.huge" + "*a.huge" * 80,
    "5|round(-1000000000)",
    "a.huge|float*1e10",
]

# ── conditions: Python, as the body of `evaluate(output, context)` ────────────────────────────

SANDBOX_ESCAPES = [
    "return open('/etc/passwd').read() != ''",
    "return __import__('os').system('true') == 0",
    "return eval('open')('/etc/passwd') is not None",
    "return exec('import os; os.system()') is None",
    "return compile('1', 'x', 'eval') is not None",
    "return globals()['__builtins__'] is not None",
    "return ().__class__.__bases__[0].__subclasses__() != []",
    "return evaluate.__globals__ != {}",
    "return evaluate.__code__.co_code != b''",
    "return output.__class__.__init__.__globals__ != {}",
    "return '{0.__class__.__mro__}'.format(1).startswith('(<class')",
    "return f'{output.__class__}'.startswith('<class')",
    "return getattr(output, '__class' + '__').__mro__ != ()",
    "return (lambda: 0).__closure__ is None and (lambda: 0).__code__ is not None",
    "return type('X', (), {})().__class__.__mro__ != ()",
    "return [x for x in ().__class__.__base__.__subclasses__()] != []",
    "return breakpoint() is None",
    "return input() == ''",
    "return help() is None",
    "return vars() != {} and dir(__builtins__) != []",
    "try:\n    raise ValueError()\nexcept ValueError as error:\n"
    "    return error.__traceback__.tb_frame is not None",
    "return (i for i in []).gi_frame is not None",
    "return memoryview(b'x').obj.__class__.__base__ is not None",
    # dunder walks
    "return [].__class__.__base__.__subclasses__()[0] is not None",
    "return {}.__init__.__self__.__class__.__mro__ != ()",
    "return ''.join.__self__.__class__.__base__ is not None",
    "return evaluate.__closure__ is None and evaluate.__defaults__ is None",
    "return evaluate.__getattribute__('__globals__') != {}",
    "return object.__getattribute__(output, '__class__') is not None",
    "return type(output).__subclasses__(type(output)) != []",
    "return type(evaluate)(evaluate.__code__, {}) is not None",
    "return (1).__reduce_ex__(2) is not None",
    "return output.__reduce__() is not None",
    "return [].__setattr__('x', 1) is None",
    "return True.__class__.__class__('X', (), {'__del__': lambda s: 0}) is not None",
    # imports and builtins by other names
    "return __builtins__['open']('/etc/passwd') is not None",
    "return __loader__.load_module('os') is not None",
    "return __spec__.loader is not None",
    "return importlib.import_module('os') is not None",
    "return sys.modules['os'] is not None",
    "return locals()['__builtins__'] is not None",
    "return setattr(evaluate, 'x', 1) is None",
    "return delattr(evaluate, '__code__') is None",
    # formats
    "return '{0.__init__.__globals__}'.format(evaluate) != ''",
    "return '{a.__class__}'.format_map({'a': 1}) != ''",
    "return format(evaluate, '') and evaluate.__globals__ is not None",
    "return ('%s' % evaluate).__class__.__mro__ != ()",
    # files, network, environment, processes
    "return os.environ['PATH'] != ''",
    "return os.listdir('/') != []",
    "return socket.create_connection(('127.0.0.1', 80)) is not None",
    "return subprocess.run(['true']).returncode == 0",
    "return pathlib.Path('/etc/passwd').read_text() != ''",
    "return exit() is None",
    "return quit() is None",
    "raise SystemExit(0)",
    "raise KeyboardInterrupt()",
    # frames
    "return sys._getframe().f_globals is not None",
    "class X:\n    def __eq__(self, other):\n        return open('/etc/passwd')\nreturn X() == 1",
]

#: Refused before they run.
SANDBOX_REFUSED = [
    "import os\nreturn True",
    "from os import path\nreturn True",
    "import json\nreturn True",
    "from . import x\nreturn True",
    "import socket\nreturn True",
    "return (lambda: (yield))().gi_frame.f_back is not None",
    "async def f():\n    return 1\nreturn f().cr_frame is not None",
]

#: They never end, or not in time.
SANDBOX_SLOW = [
    "while True:\n    pass",
    "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n"
    "        pass",
    "return sum(range(10**12)) > 0",
    "x = 'a' * 1000000\nwhile True:\n    x = x.replace('a', 'b').replace('b', 'a')",
    "x = 0\nfor a in range(10**9):\n    for b in range(10**9):\n        x += 1\nreturn x > 0",
    "return all(x == x for x in range(10**12))",
    "return max(range(10**12)) > 0",
    "x = [0] * 100000\nwhile True:\n    x.sort()\n    x.reverse()",
]

#: They want more memory than there is for them.
SANDBOX_LARGE = [
    "x = []\nwhile True:\n    x.append('a' * 1000000)",
    "return 'a' * 10**10 == ''",
    "return 10 ** 10 ** 8 > 1",
    "return [0] * 10**9 == []",
    "x = 'a' * 1000\nfor _ in range(30):\n    x = x + x\nreturn True",
    "x = {}\nwhile True:\n    x[len(x)] = list(range(1000))",
    "return list(range(10**9)) == []",
    "return (1 << 10**10) > 0",
    "x = [1]\nwhile True:\n    x += x",
    "return '%1000000000d' % 1 == ''",
    "return 'a'.ljust(10**10) == ''",
]

# ── conditions: JSONPath ──────────────────────────────────────────────────────────────────────

#: Not queries, or more than queries.
JSONPATH_ESCAPES = [
    "$[?__import__('os')]",
    "$[?eval('1')]",
    "$.__class__.__mro__[1].__subclasses__()",
    "$[?@.__class__ == 1]",
    "$[(@.length-1)]",
    "$[?(@.constructor.constructor('return process')())]",
    "$..[?(this.constructor)]",
    "$[?system('true')]",
    "$[?@.a =~ /(a+)+$/]",
    "${input}",
    "{{ input }}",
    "$[?length(@, @)]",
    "$[?match(@.a)]",
    "$.a; $.b",
    "$[" * 500,
    "$" + "[0" * 2_000,
    "$[?" + "(" * 2_000 + "@" + ")" * 2_000 + "]",
    "$" + ".a" * 100_000,
    "$" + "..*" * 50,
    "$[?" + " && ".join(["@.a"] * 50_000) + "]",
]

# ── conditions: JSON Schema ───────────────────────────────────────────────────────────────────

SCHEMA_ESCAPES: list[Any] = [
    {"$ref": "https://example.com/schema.json"},
    {"$ref": "file:///etc/passwd"},
    {"$ref": "python:os.system"},
    {"$ref": "//example.com/x"},
    {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
    {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}] * 2}}},
    {"$schema": "https://example.com/meta.json", "type": "object"},
    {"$id": "file:///etc/", "$ref": "passwd"},
    {"pattern": "("},
    {"type": "no such type"},
    {
        "$ref": "#/$defs/d0",
        "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)}
        | {"d60": {"type": "object"}},
    },
    {"anyOf": [{"anyOf": [{"anyOf": [{}] * 100}] * 100}] * 100},
]

#: Regular expressions that would not end on the text below.
BLOW_UPS = [
    "(a+)+$",
    "(a|a)*$",
    "(a|aa)+$",
    "(.*a){20}$",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "(a*)*b",
    "([a-zA-Z]+)*$",
    "(x+x+)+y",
]

#: What they are tried on.
BLOWN = "a" * 50_000 + "!"
