"""Publish a trained policy on the Hub: after training, or by `manyhands push`.

Access is checked before training; a failed upload loses nothing.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from huggingface_hub import CommitOperationAdd, HfApi, RepoCard, constants
from huggingface_hub.errors import (
    HfHubHTTPError,
    LocalTokenNotFoundError,
    RepositoryNotFoundError,
)

from manyhands.atomic import atomic_file
from manyhands.config.files.hub import HUB_ERRORS, hub_error
from manyhands.config.policies.base import PolicyConfig
from manyhands.config.runs.run_dir import PRETRAINED, PRETRAINED_EMA, TRAINING_STATE
from manyhands.config.train import TrainConfig
from manyhands.errors import UserError
from manyhands.lerobot_format.checkpoint import read_progress
from manyhands.lerobot_format.policy.card import CARD_FILE, TrainingRecord, model_card

Facts = Mapping[str, Any]

EMA_SUFFIX = "-ema"  # Of the repository with the EMA weights


@dataclass(frozen=True)
class Request:
    """How a user asks for an upload, for messages."""

    flag: str
    alternative: str
    name_flag: str
    private_flag: str

    @property
    def login(self) -> str:
        """What to do without access."""
        return f"Log in with `hf auth login` or set HF_TOKEN{self.alternative}"


AFTER_TRAINING = Request(
    "--policy.push_to_hub",
    ", or remove --policy.push_to_hub and use `manyhands push` later",
    "--policy.repo_id",
    "--policy.private",
)
BY_COMMAND = Request("push", "", "a name", "--private")


def check_hub_access(config: TrainConfig, request: Request = AFTER_TRAINING) -> None:
    """Reject a configuration whose policy could not be published."""
    policy = config.policy
    assert policy is not None and policy.repo_id is not None
    flag = f"{request.flag} to {policy.repo_id}"
    try:
        user = HfApi().whoami()
        RepoCard(model_card(policy.repo_id, config)).validate("model")
        fault = login_fault(user, policy.repo_id, request) or _public_fault(config, request)
    except LocalTokenNotFoundError:
        raise UserError(
            f"{flag}: you are not logged in to {constants.ENDPOINT}. {request.login}"
        ) from None
    except HUB_ERRORS as error:
        if isinstance(error, HfHubHTTPError) and error.response.status_code == 429:
            # Many runs that start at once exceed the Hub's rate limit.
            return
        raise UserError(f"{flag}: {_error_message(error, request)}") from None
    if fault is not None:
        raise UserError(f"{flag}: {fault}")


def login_fault(user: Facts, repo_id: str, request: Request = AFTER_TRAINING) -> str | None:
    """Why the logged-in user cannot write to a repository; None if no reason is known."""
    role = user.get("auth", {}).get("accessToken", {}).get("role")
    if role == "read":
        return (
            f"the token of {user.get('name')} is read-only. Create a write token"
            f"{request.alternative}"
        )
    spaces = [user.get("name"), *(each.get("name") for each in user.get("orgs", []))]
    # The rights of a fine-grained token are unknown here; the upload will show them.
    if role == "write" and repo_id.partition("/")[0] not in spaces:
        return (
            f"{user.get('name')} can write to {', '.join(map(str, spaces))} only. Choose "
            f"{request.name_flag} among them{request.alternative}"
        )
    return None


def _public_fault(config: TrainConfig, request: Request) -> str | None:
    """Why a private policy cannot go to its repositories; None if all are private or new."""
    policy = config.policy
    assert policy is not None and policy.repo_id is not None
    if not policy.private:
        return None
    names = [policy.repo_id, *([policy.repo_id + EMA_SUFFIX] if config.ema.enable else [])]
    public = next(filter(is_public, names), None)
    return public and f"{public_error(public)}, or set {request.private_flag}=false"


def is_public(repo_id: str) -> bool:
    """Whether a repository exists that everyone can read."""
    try:
        return not HfApi().model_info(repo_id).private
    except RepositoryNotFoundError:
        return False


def public_error(repo_id: str) -> str:
    """The error for a private policy whose repository is public."""
    settings = f"{constants.ENDPOINT}/{repo_id}/settings"
    return (
        f"{repo_id} exists and is public, but the policy is to be private. Make the repository "
        f"private at {settings} or choose another name"
    )


def publish_checkpoint(
    checkpoint: Path, config: TrainConfig, facts: Facts, rows: Sequence[Facts] = ()
) -> list[str]:
    """Upload a checkpoint's policy, and its EMA if there is one; return messages to log."""
    # `facts` are those of `run.json`, `rows` those of `metrics.jsonl`.
    policy = config.policy
    assert policy is not None and policy.repo_id is not None
    # The run may have continued, or ended before its last step.
    step = read_progress(checkpoint / TRAINING_STATE).step
    record = TrainingRecord.until(step, facts, rows)
    message = f"{policy.type} policy after {step} steps"
    card = model_card(policy.repo_id, config, record)
    log_lines = [f"published at {publish(checkpoint / PRETRAINED, policy, card, message)}"]
    if (checkpoint / PRETRAINED_EMA).is_dir():
        policy = replace(policy, repo_id=f"{policy.repo_id}{EMA_SUFFIX}")
        assert policy.repo_id is not None
        card = model_card(policy.repo_id, config, record, is_average=True)
        try:
            page = publish(checkpoint / PRETRAINED_EMA, policy, card, message)
            log_lines.append(f"EMA published at {page}")
        except UserError as error:
            log_lines.append(f"WARNING: {error}")
    return log_lines


def publish(folder: Path, policy: PolicyConfig, card: str, message: str) -> str:
    """Upload a policy's folder with its card in one commit; return the address of its page."""
    assert policy.repo_id is not None
    api = HfApi()
    try:
        with atomic_file(folder / CARD_FILE) as scratch:
            scratch.write_text(card, encoding="utf-8")
        page = api.create_repo(policy.repo_id, private=policy.private, exist_ok=True)
        # A repository that exists stays as it is.
        if policy.private and is_public(policy.repo_id):
            raise UserError(f"the policy is saved in {folder}. {public_error(policy.repo_id)}")
        files = [
            CommitOperationAdd(path_in_repo=path.name, path_or_fileobj=path)
            for path in sorted(folder.iterdir())
            if path.is_file()
        ]
        api.create_commit(policy.repo_id, files, commit_message=message)
    except HUB_ERRORS as error:
        private = ["--private"] if policy.private else []
        later = shlex.join(["hf", "upload", policy.repo_id, str(folder), *private])
        raise UserError(
            f"the policy is saved in {folder}, but the upload to {policy.repo_id} failed: "
            f"{hub_error(error)}\nUpload it: {later}"
        ) from None
    return str(page)


def _error_message(error: BaseException, request: Request) -> str:
    if type(error) is ValueError:
        return (
            f"the Hub rejected the model card: {str(error)[:300]}. Check --policy.license and "
            "--policy.tags"
        )
    return f"{hub_error(error)}. {request.login}"
