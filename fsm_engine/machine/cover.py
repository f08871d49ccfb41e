"""The fewest walks through a graph that take every edge: a flow of least cost, cut into walks.

Every edge must be taken once or more. How often is settled by a minimum-cost flow, in which a further walk costs more
than any number of steps; then the edges, each as often as the flow says, form a closed trail (Hierholzer's algorithm),
which is cut where a walk ends and the next begins.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Mapping, Sequence

_NEW_WALK = 1_000_000_000
"""Steps that one walk fewer is worth; more than any cover has."""

_RETURN = -1
"""In the closed trail: back to the start, which no edge is."""


def fewest_walks(edges: Sequence[tuple[str, str]], start: str, ends: Collection[str]) -> list[tuple[int, ...]]:
    """The fewest walks from `start` that take every edge, and of those the fewest steps.

    Args:
        edges: from and to; every edge can be reached from `start`, and from every edge one of `ends`.
        start: where every walk begins.
        ends: where a walk may end.

    Returns:
        The numbers of the edges of each walk, in order.
    """
    if not edges:
        return []
    times, endings = _times(edges, start, ends)
    trail = _closed_trail(edges, start, times, endings)
    cut = trail.index(_RETURN) + 1
    walks: list[list[int]] = [[]]
    for edge in trail[cut:] + trail[:cut]:
        if edge == _RETURN:
            walks.append([])
        else:
            walks[-1].append(edge)
    return [tuple(walk) for walk in walks[:-1]]


def _times(edges: Sequence[tuple[str, str]], start: str, ends: Collection[str]) -> tuple[list[int], Mapping[str, int]]:
    """How often each edge is taken, and how many walks end in each node."""
    flow = _Flow()
    extra = [flow.edge(("node", source), ("node", dest), len(edges), 1) for source, dest in edges]
    # What comes in more often than it goes out must be led on, to where more goes out than comes in or to an end.
    surplus = Counter({start: 1})  # one walk there is in any case
    surplus.update(dest for _, dest in edges)
    surplus.subtract(source for source, _ in edges)
    for node, count in surplus.items():
        if count > 0:
            flow.edge("source", ("node", node), count, 0)
        elif count < 0:
            flow.edge(("node", node), "sink", -count, 0)
    too_much = sum(count for count in surplus.values() if count > 0)
    too_little = sum(-count for count in surplus.values() if count < 0)
    flow.edge("source", "more walks", too_little, 0)
    flow.edge("more walks", ("node", start), too_little, _NEW_WALK)
    flow.edge("more walks", "ends", too_little, 0)  # a walk that is not needed
    ending = {node: flow.edge(("node", node), "ends", len(edges) + 1, 0) for node in surplus if node in ends}
    flow.edge("ends", "sink", too_much, 0)
    flow.fill()
    return [1 + flow.amount(edge) for edge in extra], {node: flow.amount(edge) for node, edge in ending.items()}


class _Flow:
    """A minimum-cost flow from `"source"` to `"sink"` by successive shortest paths."""

    def __init__(self) -> None:
        # Edge n and its reverse n ^ 1 lie side by side.
        self._heads: list[object] = []
        self._room: list[int] = []
        self._cost: list[int] = []
        self._out: defaultdict[object, list[int]] = defaultdict(list)

    def edge(self, tail: object, head: object, room: int, cost: int) -> int:
        """A new edge; answers its number."""
        number = len(self._heads)
        self._heads += (head, tail)
        self._room += (room, 0)
        self._cost += (cost, -cost)
        self._out[tail].append(number)
        self._out[head].append(number + 1)
        return number

    def amount(self, edge: int) -> int:
        """What flows along an edge."""
        return self._room[edge + 1]

    def fill(self) -> None:
        """Send as much as can be sent, along a cheapest path each time."""
        while path := self._cheapest_path():
            amount = min(self._room[edge] for edge in path)
            for edge in path:
                self._room[edge] -= amount
                self._room[edge ^ 1] += amount

    def _cheapest_path(self) -> list[int]:
        cost: dict[object, int] = {"source": 0}
        came_by: dict[object, int] = {}
        todo, waiting = deque[object](["source"]), set[object](["source"])
        while todo:
            node = todo.popleft()
            waiting.discard(node)
            for edge in self._out[node]:
                head, total = self._heads[edge], cost[node] + self._cost[edge]
                if self._room[edge] and (head not in cost or total < cost[head]):
                    cost[head], came_by[head] = total, edge
                    if head not in waiting:
                        waiting.add(head)
                        todo.append(head)
        path: list[int] = []
        node = "sink"
        while node in came_by:
            path.append(came_by[node])
            node = self._heads[came_by[node] ^ 1]
        return path


def _closed_trail(
    edges: Sequence[tuple[str, str]], start: str, times: Sequence[int], endings: Mapping[str, int]
) -> list[int]:
    """Every edge as often as told, end to end from `start` and back to it, with a `_RETURN` after each walk."""
    left: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for node, count in endings.items():
        left[node] += [(_RETURN, start)] * count
    for number in reversed(range(len(edges))):  # taken from the back of the list: first what was written first
        source, dest = edges[number]
        left[source] += [(number, dest)] * times[number]
    trail: list[int] = []
    stack: list[tuple[int | None, str]] = [(None, start)]
    while stack:
        came_by, node = stack[-1]
        if left[node]:
            stack.append(left[node].pop())
            continue
        stack.pop()
        if came_by is not None:
            trail.append(came_by)
    trail.reverse()
    return trail
