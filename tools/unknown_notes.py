"""Notes in an invented language, which the unknown model of the assessment "Analyse" reads."""

from __future__ import annotations

import random

TIMES = "dawn noon dusk night".split()
NAMES = "Ada Ben Cleo Dan Eva Finn Gil Hana".split()
PLACES = "harbour market mill bridge garden tower forge chapel meadow quarry orchard tavern".split()
TOPICS = (
    "boat net rope sail anchor oar shell tide".split(),
    "plough seed barn horse wheat fence cart hay".split(),
    "pot bread knife oven spoon salt bowl flour".split(),
    "book ink quill map letter lamp desk scroll".split(),
)
NOUNS = [noun for topic in TOPICS for noun in topic]
ENDINGS = "na ni no nu".split()
VERBS = "carries mends sells hides finds paints lifts cleans counts lends drops keeps wraps turns shares brings".split()
ADVERBS = "slowly gladly early late quietly twice alone often again neatly badly soon".split()
WORDS = ["<unk>", ".", *TIMES, *NAMES, *PLACES, *NOUNS, *ENDINGS, *VERBS, *ADVERBS]


def note(draw: random.Random) -> str:
    """A time of day, then seven sentences "name place noun ending verb adverb ."

    The place of a name stays the same in a note; nouns come from the note's topic (70 %) or anywhere; the ending
    follows from the time of day and the noun; the verb from the noun; the adverb from the place.
    """
    time, topic = draw.randrange(4), draw.randrange(4)
    home = {name: draw.choice(PLACES) for name in draw.sample(NAMES, 3)}
    words = [TIMES[time]]
    for _ in range(7):
        name = draw.choice(list(home))
        noun = draw.choice(TOPICS[topic] if draw.random() < 0.7 else NOUNS)
        number = NOUNS.index(noun)
        ending = ENDINGS[2 * (number // 2 % 2) + (time + number) % 2]
        verb = VERBS[(5 * number + number // 16) % 16]
        words += [name, home[name], noun, ending, verb, ADVERBS[5 * PLACES.index(home[name]) % 12], "."]
    return " ".join(words)


def notes(count: int, seed: int) -> list[str]:
    """Notes by a seed."""
    draw = random.Random(seed)
    return [note(draw) for _ in range(count)]
