"""Rollouts to watch: failures first, as videos where they fit and as frames otherwise."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from manyhands.evaluation.rollout import EpisodeResult
from manyhands.report.axes import short
from manyhands.report.media import Allowance, still_uris, video_uri
from manyhands.report.runs.evaluations import Evaluation
from manyhands.report.text import clipped

MAX_SLIDES = 24


@dataclass(frozen=True)
class Slide:
    """One rollout."""

    caption: str
    success: bool
    frames: Sequence[str] = ()
    video: str = ""


@dataclass(frozen=True)
class Filmed:
    """An episode with a video."""

    evaluation: Evaluation
    episode: EpisodeResult


def filmed_episodes(evaluations: Sequence[Evaluation]) -> list[Filmed]:
    """Episodes with videos: those of the first evaluation first, of each its failures first."""
    found = []
    for evaluation in evaluations:
        ordered = sorted(evaluation.episodes, key=lambda episode: episode.success)
        found += [Filmed(evaluation, each) for each in ordered if evaluation.video(each).is_file()]
    return found


def in_turn(runs: Sequence[Sequence[Filmed]]) -> list[Filmed]:
    """The episodes of several runs, one of each run after the other."""
    return [each for turn in zip_longest(*runs) for each in turn if each is not None]


def slides(filmed: Sequence[Filmed], allowance: Allowance) -> tuple[list[Slide], str]:
    """Slides within an allowance, and a sentence on what is not among them."""
    shown = []
    for each in filmed[:MAX_SLIDES]:
        frames = still_uris(each.evaluation.video(each.episode))
        shown.append(_slide(each, frames if allowance.takes(*frames) else []))
    # Videos come last: frames of all rollouts show more than a video of one.
    shown = [
        _with_video(slide, each, allowance) for slide, each in zip(shown, filmed, strict=False)
    ]
    return shown, _note(filmed, shown)


def _slide(filmed: Filmed, frames: Sequence[str]) -> Slide:
    episode = filmed.episode
    facts = [
        filmed.evaluation.label,
        f"episode {episode.index}",
        f"seed {episode.seed}",
        f"{episode.length} steps",
        f"maximum reward {short(episode.max_reward)}",
        *([episode.error] if episode.error else []),
    ]
    return Slide(clipped(", ".join(map(str, facts)), 300), episode.success, frames)


def _with_video(slide: Slide, filmed: Filmed, allowance: Allowance) -> Slide:
    uri = video_uri(filmed.evaluation.video(filmed.episode))
    return replace(slide, video=uri) if uri and allowance.takes(uri) else slide


def _note(filmed: Sequence[Filmed], shown: Sequence[Slide]) -> str:
    no_video = sum(not slide.video for slide in shown)
    nothing = sum(not slide.video and not slide.frames for slide in shown)
    parts = []
    if len(filmed) > len(shown):
        parts.append(f"{len(filmed) - len(shown)} more rollouts are not shown.")
    if no_video:
        parts.append(f"{no_video} videos are not embedded: the page would exceed its size.")
    if nothing:
        parts.append(f"{nothing} rollouts have no images for the same reason.")
    if parts:
        parts.append("All videos are in the folders of their evaluations.")
    return " ".join(parts)
