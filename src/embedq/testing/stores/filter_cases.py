"""What filters mean, as a table: records, filters, and the records that each allows."""

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

ATTRIBUTES: dict[str, dict[str, Any]] = {
    "int": {"n": 1},
    "float": {"n": 1.5},
    "minus": {"n": -3},
    "bool": {"n": True},
    "text": {"n": "1"},
    "null": {"n": None},
    "numbers": {"n": [10, 30]},
    "mixed": {"n": ["b", 2, None, False]},
    "nothing": {"n": []},
    "nested": {"n": [[1], {"n": 1}]},
    "object": {"n": {"n": 1, "x": "y"}},
    "none": {},
    "upper": {"s": "Zoë"},
    "lower": {"s": "a"},
    "accent": {"s": "é"},
    "emoji": {"s": "😀"},
    "bmp": {"s": "\uffee"},
    "quoted": {"s": "say \"no\" \\ 'yes' %s $1 \u001f"},
    "author": {"author": {"name": "Ada", "born": 1815}},
    "authors": {"author": [{"name": "Ada"}, {"name": ["Grace", "G."], "born": 1906}, 7, "x", None]},
    "deep": {"author": [[{"name": "Ada"}]]},
    "dotted": {"author.name": "Ada"},
    "day": {"at": "2026-01-31"},
    "zulu": {"at": "2026-01-31T10:00:00Z"},
    "offset": {"at": "2026-02-01T00:30:00+14:00"},  # 10:30 the day before
    "west": {"at": "2026-01-30 23:00-1130"},  # 10:30 the day after
    "fine": {"at": "2026-01-31T10:00:00.000001999Z"},
    "moments": {"at": ["1999-01-01", "2026-01-31T10:00"]},
    "no day": {"at": "2026-02-30"},
    "no time": {"at": "2026-01-31T24:00:00Z"},
    "no date": {"at": "2026-01-31 or so"},
    "number": {"at": 20260131},
}
NUMBERS = {"int", "float", "minus", "numbers", "mixed"}
N = {*NUMBERS, "bool", "text", "null", "nothing", "nested", "object"}
AT = {"day", "zulu", "offset", "west", "fine", "moments"}
TEN = datetime(2026, 1, 31, 10, tzinfo=UTC)
EVERY = set(ATTRIBUTES)

CASES: list[tuple[dict[str, Any], set[str]]] = [
    # a number is a number, true is not 1, a list contains its items, and what an object or a list in it holds is none
    ({"n": 1}, {"int"}),
    ({"n": 1.0}, {"int"}),
    ({"n": True}, {"bool"}),
    ({"n": "1"}, {"text"}),
    ({"n": 1.5}, {"float"}),
    ({"n": -3}, {"minus"}),
    ({"n": None}, {"null", "mixed"}),
    ({"n": 30}, {"numbers"}),
    ({"n": ["1", 1]}, {"int", "text"}),
    ({"n": ("1", 1)}, {"int", "text"}),
    ({"n": []}, set()),
    ({"absent": 1}, set()),
    ({"s": 'say "no" \\ \'yes\' %s $1 \u001f'}, {"quoted"}),
    # operators
    ({"n": {"eq": 2}}, {"mixed"}),
    ({"n": {"in": [2, 30]}}, {"mixed", "numbers"}),
    ({"n": {"ne": 2}}, EVERY - {"mixed"}),
    ({"n": {"not_in": [2, "1", None]}}, EVERY - {"mixed", "text", "null"}),
    ({"n": {"not_in": []}}, EVERY),
    ({"n": {"exists": True}}, N),
    ({"n": {"exists": False}}, EVERY - N),
    ({"n": {"exists": True, "ne": 1}}, N - {"int"}),
    # a range compares within a kind, and one item of a list must be within all bounds
    ({"n": {"gte": 1}}, NUMBERS - {"minus"}),
    ({"n": {"gt": 1}}, {"float", "numbers", "mixed"}),
    ({"n": {"lt": 1.5}}, {"int", "minus"}),
    ({"n": {"lte": 1.5}}, {"int", "float", "minus"}),
    ({"n": {"gt": 10, "lt": 30}}, set()),
    ({"n": {"gte": 10, "lte": 10}}, {"numbers"}),
    ({"n": {"gte": 0, "gt": 1, "lt": 99, "lte": 2}}, {"float", "mixed"}),
    ({"n": {"gte": ""}}, {"text", "mixed"}),
    ({"n": {"lt": "b"}}, {"text"}),
    ({"s": {"lt": "a"}}, {"upper"}),  # texts by their code points
    ({"s": {"gt": "a", "lte": "é"}}, {"accent", "quoted"}),
    ({"s": {"gte": "\uffee"}}, {"emoji", "bmp"}),
    # paths
    ({"author.name": "Ada"}, {"author", "authors"}),
    ({"author.name": "Grace"}, {"authors"}),
    ({"author.born": {"lt": 1900}}, {"author"}),
    ({"author.born": {"exists": True}}, {"author", "authors"}),
    ({"author.name.first": {"exists": False}}, EVERY),
    ({"author\\.name": "Ada"}, {"dotted"}),
    ({"n.n": 1}, {"nested", "object"}),
    ({"n.x": {"exists": True}}, {"object"}),
    # moments, however they are written
    ({"at": {"gte": "2026-01-31T10:00:00Z"}}, AT - {"day"}),
    ({"at": {"gt": "2026-01-31T10:00:00+00:00"}}, {"offset", "west", "fine"}),
    ({"at": {"gte": "2026-01-31", "lt": "2026-01-31T10:00"}}, {"day"}),
    ({"at": {"lte": "2026-01-31"}}, {"day", "moments"}),
    ({"at": {"lt": "1999-01-01T00:00:00.000001"}}, {"moments"}),
    ({"at": {"gt": TEN, "lte": TEN + timedelta(microseconds=1)}}, {"fine"}),
    ({"at": {"gt": TEN, "lt": TEN}}, set()),
    ({"at": {"gt": TEN, "lt": TEN - timedelta(1)}}, set()),
    ({"at": TEN.astimezone(timezone(timedelta(hours=5, minutes=30)))}, {"zulu", "moments"}),
    ({"at": [date(2026, 1, 31), "2026-02-30"]}, {"day", "no day"}),
    ({"at": {"ne": date(2026, 1, 31)}}, EVERY - {"day"}),
    ({"at": {"gte": "0001-01-01", "lte": "9999-12-31T23:59:59.999999"}}, AT),
    ({"at": {"gte": "2026-01-31 or", "lt": "2026-01-31 os"}}, {"no date"}),  # texts
    # groups
    ({"n": 1, "s": "a"}, set()),
    ({"$or": [{"n": 1}, {"s": "a"}]}, {"int", "lower"}),
    ({"$and": [{"n": {"gt": 0}}, {"$or": [{"n": 10}, {"n": 2}]}]}, {"numbers", "mixed"}),
    ({"$not": {"n": {"exists": True}}, "$or": [{"s": {"exists": True}}, {"at": 20260131}]},
     {"upper", "lower", "accent", "emoji", "bmp", "quoted", "number"}),
    ({"$not": {"$not": {"n": 1}}}, {"int"}),
    ({"$not": {"n": {"exists": True}, "s": "a"}}, EVERY),
    ({"$not": {"$or": [{"n": {"exists": True}}, {"at": {"lt": TEN}}, {"s": {"gte": ""}}]}},
     EVERY - N - {"day", "moments", "upper", "lower", "accent", "emoji", "bmp", "quoted"}),
]  # fmt: skip
