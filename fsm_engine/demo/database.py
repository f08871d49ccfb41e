"""The shop's books: an SQLite file that is made anew for each demonstration."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

WAREHOUSES = ("beijing", "shanghai", "guangzhou")

_TABLES = """
CREATE TABLE orders (
    id INTEGER PRIMARY KEY, customer TEXT, phone TEXT, sku_id TEXT, quantity INTEGER, yuan REAL, region TEXT, status TEXT
);
CREATE TABLE stock (sku_id TEXT, warehouse TEXT, quantity INTEGER, PRIMARY KEY (sku_id, warehouse));
CREATE TABLE payments (id INTEGER PRIMARY KEY, at TEXT, recipient TEXT, yuan REAL);
CREATE TABLE messages (id INTEGER PRIMARY KEY, phone TEXT, text TEXT);
"""

_ORDERS = [
    (1040, "Zhao Lei", "13900001111", "SKU-310", 2, 398.0, "north", "shipped"),
    (1041, "Sun Yan", "15800002222", "SKU-200", 1, 649.0, "east", "shipped"),
    (1042, "Chen Mei", "13812345678", "SKU-200", 3, 1947.0, "south", "damaged"),
    (1043, "Wu Gang", "18600003333", "SKU-310", 5, 995.0, "west", "packed"),
]

_STOCK = [
    ("SKU-200", "beijing", 14),
    ("SKU-200", "shanghai", 3),
    ("SKU-200", "guangzhou", 0),
    ("SKU-310", "beijing", 120),
    ("SKU-310", "shanghai", 48),
    ("SKU-310", "guangzhou", 76),
]

_PAYMENTS = [
    ("2024-05-18T10:12:00+08:00", "Zhao Lei", 120.0),
    ("2024-05-20T09:30:00+08:00", "Sun Yan", 649.0),
]


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The database, for one transaction: committed on leaving, rolled back on an exception."""
    with closing(sqlite3.connect(path)) as connection, connection:
        yield connection


def create_database(path: Path) -> None:
    """Make the tables and fill them."""
    with opened(path) as connection:
        connection.executescript(_TABLES)
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?)", _ORDERS)
        connection.executemany("INSERT INTO stock VALUES (?, ?, ?)", _STOCK)
        connection.executemany("INSERT INTO payments (at, recipient, yuan) VALUES (?, ?, ?)", _PAYMENTS)
