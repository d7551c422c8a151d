"""Prompts whose answers repeat much of what was asked: where prompt lookup helps."""

from __future__ import annotations

from collections.abc import Iterator

#: What to do with a text.
TASKS = (
    "Repeat the following text word for word.",
    "Correct the spelling of the following text. Change nothing else.",
    "Quote the two most important sentences of the following text.",
    "Write the following text again, and add a title.",
)
#: What to do with code or records.
EDITS = (
    "Copy the following exactly.",
    "Add a comment at the top of the following and change nothing else.",
)

TEXTS = (
    "The bridge over the river was closed on Monday because one of its cables had begun to rust. "
    "Engineers will replace the cable within two weeks. Until then, a ferry carries people and "
    "bicycles across the river every ten minutes, from six in the morning until midnight. Cars "
    "have to take the bridge at the old mill, which is four kilometres further north.",
    "Bees find their way home by the position of the sun. When clouds hide the sun, they use the "
    "pattern of light in the blue parts of the sky. A bee that has found many flowers dances in "
    "the hive: the direction of the dance tells the other bees where the flowers are, and its "
    "speed tells them how far away the flowers are.",
    "To make the soup, cut two onions and three carrots into small pieces. Fry the onions in oil "
    "until they are soft. Add the carrots, a litre of water and a spoon of salt. Let the soup "
    "cook for twenty minutes. Add the beans, and let the soup cook for ten more minutes. Serve "
    "it hot, with bread.",
    "The library opens at nine on weekdays and at ten on Saturdays. On Sundays it is closed. A "
    "card costs nothing for children and five euros a year for everybody else. Books can be kept "
    "for four weeks, films for one week. Whoever brings a book back late pays ten cents a day.",
    "Minutes of the meeting on the third of May. Anna reported that the new server has run for a "
    "month without a fault. Ben asked for a second server, because the first one is busy in the "
    "evening. The team agreed to order a second server in June. Carla will compare the prices of "
    "three suppliers until the next meeting on the tenth of May.",
)

RECORDS = (
    "def mean(values):\n    total = 0.0\n    count = 0\n    for value in values:\n"
    "        total += value\n        count += 1\n    if count == 0:\n        return None\n"
    "    return total / count\n\n\ndef variance(values):\n    middle = mean(values)\n"
    "    total = 0.0\n    count = 0\n    for value in values:\n"
    "        total += (value - middle) ** 2\n        count += 1\n    return total / count",
    '[{"name": "Anna", "city": "Oslo", "age": 31, "member": true},\n'
    ' {"name": "Ben", "city": "Rome", "age": 27, "member": false},\n'
    ' {"name": "Carla", "city": "Lima", "age": 45, "member": true},\n'
    ' {"name": "Dan", "city": "Cairo", "age": 38, "member": true}]',
    "| day | open | close |\n|---|---|---|\n| Monday | 9:00 | 18:00 |\n| Tuesday | 9:00 | 18:00 |\n"
    "| Wednesday | 9:00 | 20:00 |\n| Thursday | 9:00 | 18:00 |\n| Friday | 9:00 | 16:00 |",
)

#: Ordinary questions, whose answers say something new.
QUESTIONS = (
    "Why is the sky blue?",
    "What should I pack for a week of hiking in the mountains?",
    "Explain to a child how a bicycle stays upright.",
    "Write a short poem about the first snow of the year.",
    "How do I ask my neighbour to be quieter without offending him?",
    "What is the difference between weather and climate?",
    "Give me three ideas for a birthday party of a ten-year-old.",
    "Tell me the story of a lighthouse keeper who finds a letter.",
    "How does a refrigerator work?",
    "What are good questions to ask in a job interview?",
    "Describe a day in the life of a medieval baker.",
    "How can I learn to cook when I have little time?",
)


def prompts() -> Iterator[str]:
    """All of them, neighbours unlike each other."""
    for round in range(len(TASKS)):
        for place, text in enumerate(TEXTS):
            yield f"{TASKS[(round + place) % len(TASKS)]}\n\n{text}"
        if round < len(EDITS):
            for place, record in enumerate(RECORDS):
                yield f"{EDITS[(round + place) % len(EDITS)]}\n\n{record}"
