"""The application that is killed: articles and comments, each told with what the other knows.

Two tables. `augmented-article` has each article with the number of its comments, also without any;
`augmented-comment` each comment with the beginning of the article that it names, once there is one.
"""

from __future__ import annotations

import os
from typing import Any, TypedDict

from pystreams import KTable, StreamsBuilder, Topology, serdes

TOPICS = {"article": 3, "comment": 5, "augmented-article": 3, "augmented-comment": 5}
"""Partitions of each topic: as many as upstream's has."""
PREFIX_CHARACTERS = 10


class Article(TypedDict):
    text: str


class Comment(TypedDict):
    article: int
    text: str


class AugmentedArticle(TypedDict):
    text: str
    comments: int


class AugmentedComment(TypedDict):
    article: int
    text: str
    prefix: str


def with_count(article: Article, count: int | None) -> AugmentedArticle:
    return {"text": article["text"], "comments": count or 0}


def with_prefix(comment: Comment, article: Article) -> AugmentedComment:
    prefix = article["text"][:PREFIX_CHARACTERS]
    return {"article": comment["article"], "text": comment["text"], "prefix": prefix}


def article_of(comment: Comment) -> int:
    return comment["article"]


def topology() -> Topology:
    name = os.environ["KILLED_NAME"]
    rows: Any = {"key_serde": serdes.INT, "value_serde": serdes.JSON}
    builder = StreamsBuilder()
    articles: KTable[int, Article] = builder.table(f"{name}-article", **rows)
    comments: KTable[int, Comment] = builder.table(f"{name}-comment", **rows)
    counts = comments.group_by(lambda _, comment: (article_of(comment), comment), **rows).count()
    articles.left_join(counts, with_count).to_stream().to(f"{name}-augmented-article", **rows)
    told = comments.join(articles, with_prefix, foreign_key=article_of)
    told.to_stream().to(f"{name}-augmented-comment", **rows)
    return builder.build()
