"""Questions over small SQLite databases: prompts, a log of attempts, a reward that runs the answer, and an environment.

    python examples/rl/sql.py runs/sql [--seed 0] [--train 150] [--held-out 40] [--right-share 1]

writes into a folder

    prompts.jsonl    questions about twelve kinds of things
    held-out.jsonl   questions about four other kinds of things
    attempts.jsonl   a log of six attempts at each prompt: right, near misses, and text that is no query

`correct` is the reward of a text, `Database` an environment in which the policy may run queries before it answers.
Nothing here is random but by the seed. Only the standard library is needed.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sqlite3
import time
from pathlib import Path

# table: two columns of text, two of numbers
TABLES = {
    "staff": ("city", "role", "salary", "age"),
    "books": ("genre", "language", "price", "pages"),
    "films": ("genre", "country", "budget", "minutes"),
    "cars": ("colour", "fuel", "price", "doors"),
    "horses": ("breed", "colour", "weight", "age"),
    "ships": ("flag", "type", "length", "speed"),
    "wines": ("colour", "grape", "price", "year"),
    "pupils": ("town", "hobby", "marks", "age"),
    "songs": ("genre", "mood", "plays", "seconds"),
    "houses": ("city", "style", "price", "rooms"),
    "games": ("genre", "platform", "price", "score"),
    "trees": ("species", "soil", "height", "age"),
}
HELD_OUT_TABLES = {
    "planes": ("model", "airline", "seats", "range"),
    "players": ("team", "position", "goals", "age"),
    "phones": ("brand", "colour", "price", "storage"),
    "cheeses": ("milk", "country", "price", "fat"),
}
WORDS = (
    *(
        "red",
        "blue",
        "green",
        "oak",
        "pine",
        "north",
        "south",
        "east",
        "west",
        "gold",
        "silver",
        "iron",
        "rome",
        "oslo",
    ),
    *("lima", "paris", "cairo", "delta", "alpha", "nova", "ruby", "jade", "coral", "amber", "slate", "lotus"),
    *("cedar", "maple", "basalt", "quartz"),
)
NAMES = (
    *("Ada", "Bo", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hana", "Ivo", "Jo", "Kim", "Leo", "Mia", "Ned", "Olga", "Pia"),
    *("Quin", "Rex", "Sam", "Tess"),
)
LEVELS = ("easy", "medium", "hard")
SECONDS = 0.2  # of one query: a cross join of small tables ends within a millisecond
VALID = 0.2  # reward of a query that runs and reads a table, with other rows than the right ones


def questions(table: str, columns: tuple[str, ...], level: str, draw: random.Random) -> tuple[str, list, list, dict]:
    """Draw a question of a level: its text, right queries, wrong queries that run, words of the text columns."""
    first, second, x, y = columns
    words = draw.sample(WORDS, 6)
    values = {first: words[:3], second: words[3:]}
    column, other = draw.sample((first, second), 2)
    number, other_number = draw.sample((x, y), 2)
    value, limit = draw.choice(values[column]), draw.randint(35, 65)
    more, sign, opposite = draw.choice([("above", ">", "<"), ("below", "<", ">")])
    high, function, order = draw.choice([("highest", "MAX", "DESC"), ("lowest", "MIN", "ASC")])
    reverse = "ASC" if order == "DESC" else "DESC"
    where = f"FROM {table} WHERE {column} = '{value}'"
    by_level = {
        "easy": [
            (
                f"How many {table} are there?",
                [f"SELECT COUNT(*) FROM {table}", f"SELECT COUNT(id) FROM {table}", f"SELECT COUNT(name) FROM {table}"],
                [f"SELECT * FROM {table}", f"SELECT COUNT(*), {number} FROM {table}", f"SELECT id FROM {table}"],
            ),
            (
                f"Which {table} have {column} {value}? Give names.",
                [
                    f"SELECT name {where}",
                    f"SELECT name FROM {table} WHERE {column} LIKE '{value}'",
                    f"SELECT name {where} ORDER BY name",
                ],
                [
                    f"SELECT * {where}",
                    f"SELECT name FROM {table}",
                    f"SELECT name FROM {table} WHERE {other} = '{value}'",
                ],
            ),
            (
                f"What is the {high} {number} of the {table}?",
                [
                    f"SELECT {function}({number}) FROM {table}",
                    f"SELECT {number} FROM {table} ORDER BY {number} {order} LIMIT 1",
                ],
                [
                    f"SELECT {function}({other_number}) FROM {table}",
                    f"SELECT {number} FROM {table}",
                    f"SELECT name, {function}({number}) FROM {table}",
                ],
            ),
        ],
        "medium": [
            (
                f"How many {table} have {number} {more} {limit}?",
                [
                    f"SELECT COUNT(*) FROM {table} WHERE {number} {sign} {limit}",
                    f"SELECT COUNT(id) FROM {table} WHERE {number} {sign} {limit}",
                ],
                [
                    f"SELECT COUNT(*) FROM {table}",
                    f"SELECT * FROM {table} WHERE {number} {sign} {limit}",
                    f"SELECT COUNT(*) FROM {table} WHERE {number} {opposite} {limit}",
                ],
            ),
            (
                f"Which of the {table} has the {high} {number}? Give the name.",
                [
                    f"SELECT name FROM {table} ORDER BY {number} {order} LIMIT 1",
                    f"SELECT name FROM {table} WHERE {number} = (SELECT {function}({number}) FROM {table})",
                ],
                [
                    f"SELECT {function}({number}) FROM {table}",
                    f"SELECT name FROM {table} ORDER BY {number} {reverse} LIMIT 1",
                    f"SELECT name FROM {table}",
                ],
            ),
            (
                f"What is the average {number} of {table} with {column} {value}?",
                [f"SELECT AVG({number}) {where}", f"SELECT SUM({number}) * 1.0 / COUNT(*) {where}"],
                [f"SELECT AVG({number}) FROM {table}", f"SELECT SUM({number}) {where}", f"SELECT {number} {where}"],
            ),
        ],
        "hard": [
            (
                f"How many {table} are there for each {column}?",
                [
                    f"SELECT {column}, COUNT(*) FROM {table} GROUP BY {column}",
                    f"SELECT {column}, COUNT(id) FROM {table} GROUP BY {column}",
                ],
                [
                    f"SELECT COUNT(*) FROM {table}",
                    f"SELECT {column}, {number} FROM {table}",
                    f"SELECT {other}, COUNT(*) FROM {table} GROUP BY {other}",
                ],
            ),
            (
                f"What is the {high} {number} for each {column}?",
                [
                    f"SELECT {column}, {function}({number}) FROM {table} GROUP BY {column}",
                    f"SELECT {column}, {function}({number}) FROM {table} GROUP BY 1",
                ],
                [
                    f"SELECT {function}({number}) FROM {table}",
                    f"SELECT {column}, {function}({other_number}) FROM {table} GROUP BY {column}",
                    f"SELECT {function}({number}) FROM {table} GROUP BY {column}",
                ],
            ),
            (
                f"Which {column} has the most {table}?",
                [
                    f"SELECT {column} FROM {table} GROUP BY {column} ORDER BY COUNT(*) DESC LIMIT 1",
                    f"SELECT {column} FROM {table} GROUP BY {column} ORDER BY COUNT(id) DESC LIMIT 1",
                ],
                [
                    f"SELECT {column}, COUNT(*) FROM {table} GROUP BY {column}",
                    f"SELECT {column} FROM {table}",
                    f"SELECT {column} FROM {table} GROUP BY {column} ORDER BY COUNT(*) LIMIT 1",
                ],
            ),
        ],
    }
    return *draw.choice(by_level[level]), values


def database(table: str, columns: tuple[str, ...], values: dict, draw: random.Random) -> list[str]:
    """Draw the statements that make a database of one table."""
    first, second, x, y = columns
    names = draw.sample(NAMES, draw.randint(10, 18))
    numbers = zip(draw.sample(range(10, 99), len(names)), draw.sample(range(10, 99), len(names)), strict=True)
    rows = [
        f"({place}, '{name}', '{draw.choice(values[first])}', '{draw.choice(values[second])}', {one}, {another})"
        for place, (name, (one, another)) in enumerate(zip(names, numbers, strict=True), 1)
    ]
    return [
        f"CREATE TABLE {table}(id, name, {first}, {second}, {x}, {y})",
        f"INSERT INTO {table} VALUES {', '.join(rows)}",
    ]


def prompt_line(table: str, columns: tuple[str, ...], level: str, draw: random.Random) -> dict:
    """Draw a question and two databases that tell its right queries from the wrong ones.

    An answer has to be right on both, so that the right rows by chance are not enough.
    """
    while True:
        text, right, wrong, values = questions(table, columns, level, draw)
        databases = [database(table, columns, values, draw) for _ in range(2)]
        if tells_apart(right, wrong, databases):
            break
    schema = databases[0][0].removeprefix("CREATE TABLE ")
    line = {"prompt": f"{schema}\nQuestion: {text}\nSQL:", "right": right, "wrong": wrong, "databases": databases}
    return line | {"difficulty": level, "table": table}


def tells_apart(right: list[str], wrong: list[str], databases: list[list[str]]) -> bool:
    """Return whether all right queries agree on each database, with other rows on each, and no wrong one has them."""
    answers = [[rows_of(statements, query) for query in right] for statements in databases]
    agree = all(rows[0] and rows == [rows[0]] * len(rows) for rows in answers)
    return agree and answers[0] != answers[1] and all(score(query, right[0], databases) == VALID for query in wrong)


READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}


def rows_of(statements: list[str], query: str) -> list[tuple] | None:
    """Run a query that only reads: its rows in a fixed order, or None where it fails, writes or takes too long."""
    connection = sqlite3.connect(":memory:")
    try:
        for statement in statements:
            connection.execute(statement)
        connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in READS else sqlite3.SQLITE_DENY)
        deadline = time.monotonic() + SECONDS
        connection.set_progress_handler(lambda: time.monotonic() > deadline, 1000)
        return sorted(connection.execute(query).fetchmany(200), key=repr)
    except (sqlite3.Error, sqlite3.Warning, ValueError):
        return None
    finally:
        connection.close()


def score(text: str, right: str, databases: list[list[str]]) -> float:
    """1 for the rows of the right query on every database, 0.2 for another query of a table that runs, else 0."""
    query = text.strip()
    if not re.match(r"select\b.*\bfrom\b", query, re.IGNORECASE | re.DOTALL):
        return 0.0
    rows = [rows_of(statements, query) for statements in databases]
    if any(found is None for found in rows):
        return 0.0
    return 1.0 if rows == [rows_of(statements, right) for statements in databases] else VALID


def correct(completions, right, databases, **columns):
    """The reward of `rl` and `eval`."""
    return [score(text, queries[0], made) for text, queries, made in zip(completions, right, databases, strict=True)]


class Database:
    """An environment: a turn `RUN query` is answered with its rows, any other turn is the answer."""

    role = "user"

    def reset(self, prompt):
        """Keep the line of the prompt; there is nothing to say before the first turn."""
        self.prompt, self.answer = prompt, ""

    def step(self, text):
        """Return what the database answers, and whether the rollout is over."""
        command, _, query = text.strip().partition(" ")
        if command != "RUN":
            self.answer = text
            return None, True
        rows = rows_of(self.prompt["databases"][0], query)
        return ("error" if rows is None else json.dumps(rows[:5])), False

    def score(self):
        """Return the reward of the answer."""
        return score(self.answer, self.prompt["right"][0], self.prompt["databases"])


def no_query(line: dict, draw: random.Random) -> str:
    """Draw an attempt that does not run: prose, half of a query, a column that is not there."""
    query, table = line["right"][0], line["table"]
    return draw.choice(
        [
            f"The {table} are listed above.",
            query.replace("SELECT ", "SELECT from ", 1),
            query.replace(f"FROM {table}", f"FROM {table}s", 1),
            query.rsplit(" ", 1)[0] + " WHERE",
            "I do not know.",
            query.replace("SELECT", "GET", 1),
            f"SELECT total FROM {table}",
            f"{table} = {draw.randint(1, 20)}",
        ]
    )


def prompt_lines(tables: dict, count: int, name: str, draw: random.Random) -> list[dict]:
    """Draw different prompts, levels and tables in turn."""
    lines: dict[str, dict] = {}
    while len(lines) < count:
        table = list(tables)[len(lines) // len(LEVELS) % len(tables)]
        line = prompt_line(table, tables[table], LEVELS[len(lines) % len(LEVELS)], draw)
        lines.setdefault(line["prompt"], {"id": f"{name}-{len(lines)}"} | line)
    return list(lines.values())


def attempts(line: dict, draw: random.Random, *, with_right: bool) -> list[str]:
    """Draw a log's attempts at a prompt: one that is right or one more failure, two near misses, three failures."""
    best = [draw.choice(line["right"])] if with_right else []
    return best + draw.sample(line["wrong"], 2) + [no_query(line, draw) for _ in range(4 - len(best))]


def write(path: Path, lines: list[dict]) -> None:
    """Write JSON lines."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def main() -> None:
    """Write the three files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--train", type=int, default=150, help="prompts of prompts.jsonl")
    parser.add_argument("--held-out", type=int, default=40, help="prompts of held-out.jsonl")
    parser.add_argument(
        "--right-share", type=float, default=1.0, help="share of prompts with a right attempt in the log"
    )
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    draw = random.Random(given.seed)
    prompts = prompt_lines(TABLES, given.train, "prompt", draw)
    write(given.out / "prompts.jsonl", prompts)
    write(given.out / "held-out.jsonl", prompt_lines(HELD_OUT_TABLES, given.held_out, "held-out", draw))
    solved = set(draw.sample(range(len(prompts)), round(given.right_share * len(prompts))))
    log = []
    for place, line in enumerate(prompts):
        for number, text in enumerate(attempts(line, draw, with_right=place in solved)):
            messages = [{"role": "user", "content": line["prompt"]}, {"role": "assistant", "content": text}]
            reward = score(text, line["right"][0], line["databases"])
            log.append(
                {
                    "id": f"{line['id']}/{number}",
                    "group": line["id"],
                    "domain": line["difficulty"],
                    "reward": reward,
                    "messages": messages,
                }
            )
    write(given.out / "attempts.jsonl", log)


if __name__ == "__main__":
    main()
