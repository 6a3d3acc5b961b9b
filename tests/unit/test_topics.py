"""The text task: frozen, balanced, without a module or a sentence on two sides."""

from __future__ import annotations

import platform

import pytest

from tools import topics as script
from utils.topics import bag_of_words, topics


@pytest.fixture(scope="module")
def task():
    return topics()


def test_no_module_and_no_similar_sentence_is_in_two_splits(task):
    modules = [{task.modules[i] for i in rows.tolist()} for rows in (task.train, task.validation, task.test)]
    assert not (modules[0] & modules[1] or modules[0] & modules[2] or modules[1] & modules[2])
    bags = [script.words(text) for text in task.texts]
    assert not any(
        len(bags[i] & bags[j]) >= script.ALIKE * len(bags[i] | bags[j])
        for i in task.test.tolist()
        for j in task.train.tolist()
    )


def test_every_topic_has_the_same_share_of_each_split(task):
    for name, rows in (("train", task.train), ("validation", task.validation), ("test", task.test)):
        assert task.labels[rows].bincount().tolist() == [script.COUNTS[name]] * 5
    assert sorted(task.topics) == sorted(script.TOPICS)


def test_samples_are_balanced_and_larger_ones_hold_smaller_ones(task):
    small, large = task.sample(10, seed=3), task.sample(40, seed=3)
    assert set(small.train.tolist()) < set(large.train.tolist()) <= set(task.train.tolist())
    assert large.labels[large.train].bincount().tolist() == [8] * 5
    assert task.sample(10, seed=4).train.tolist() != small.train.tolist()


@pytest.mark.parametrize("examples", [0, -5, 12, 285])
def test_a_number_that_cannot_be_balanced_is_refused(task, examples):
    with pytest.raises(ValueError, match=f"multiple of 5, at most 280, got {examples}"):
        task.sample(examples)


def test_words_beat_chance_and_labels_in_disorder_do_not(task):
    assert bag_of_words(task) > 0.33
    mixed = task.labels.clone()
    mixed[task.train] = task.labels[task.train.flip(0)]
    assert bag_of_words(task._replace(labels=mixed)) < 0.3


@pytest.mark.skipif(platform.python_version() != script.frozen.VERSION, reason="the texts are those of another Python")
def test_the_file_is_what_the_script_gives():
    assert script.FILE.read_text(encoding="utf-8") == script.content()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Return the next line. More.", "Return the next line."),
        ("Short one.", None),
        ("return the next line of it", None),
        ("Use x = 3 as the default value", None),
        ("Open a file\nfor reading.\n\nThe rest.", "Open a file for reading."),
    ],
)
def test_a_first_sentence_is_prose_of_a_fit_length(text, expected):
    assert script.sentence(text) == expected
