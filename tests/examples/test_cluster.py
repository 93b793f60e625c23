"""The examples for clusters: each is read as its program reads it, and every command in them is one that there is."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from mptctl.cli.app import app
from mptctl.recipe import load_recipe

FOLDER = Path(__file__).parents[2] / "examples" / "cluster"
FILES = sorted(path.name for path in FOLDER.iterdir())


def commands(program: str, name: str) -> list[list[str]]:
    """Words of each command of a program in a file: those that it runs, and those in its comments, indented."""
    lines = [line.removeprefix("#") for line in (FOLDER / name).read_text().splitlines()]
    shown = [line for line in lines if not re.match(r"!|SBATCH| {0,3}[A-Z]", line)]
    text = re.sub(r"(\\\n|\n(?=\s+--))", " ", "\n".join(shown))
    # Up to the end of the line, or of the quotes around it, or to a comment.
    found = re.findall(rf"(?:^|[\s'=]){program} ([a-z][\w-]*(?: +[^\s'#]+)*)", text, flags=re.MULTILINE)
    return [shlex.split(words) for words in found]


def check_mptctl(words: list[str]) -> None:
    """Refuse a verb or a flag that mptctl has not, and settings that are none of a recipe's."""
    verbs: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    options = {name for parameter in verbs[words[0]].params for name in parameter.opts}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= options, words
    settings = [value for flag, value in pairwise(words) if flag == "--set"]
    load_recipe("cifar100", settings)


def printed_by_srun(script: str, folder: Path, **slurm: str) -> list[str]:
    """What a script gives to `srun`, one word a line, where Slurm's own programs are stood in for."""
    for name, body in (("scontrol", "printf 'node1\\nnode2\\n'"), ("srun", 'printf "%s\\n" "$@"')):
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "SLURM_JOB_NODELIST": "node[1-2]", **slurm}
    done = subprocess.run(
        ["bash", FOLDER / script], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", FILES)
def test_each_says_first_what_is_shared_and_names_only_commands_that_there_are(name: str) -> None:
    from ray.scripts.scripts import cli

    if name.endswith(".sh"):
        assert subprocess.run(["bash", "-n", FOLDER / name], check=False).returncode == 0
    text = (FOLDER / name).read_text()
    top = re.match(r"(#.*\n)+", text)
    assert "# Shared" in top[0]
    assert "# Not shared" in top[0]
    ours = commands("mptctl", name)
    assert ours
    for words in ours:
        check_mptctl([word for word in words if "$" not in word])
    for words in commands("ray", name):
        assert words[0] in cli.commands, words


def test_ray_takes_the_cluster_file() -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    page: Any = yaml.safe_load((FOLDER / "ray-up.yaml").read_text())
    validate_config(prepare_config(page))
    with pytest.raises(Exception, match="worker_ip"):
        validate_config(page | {"worker_ip": []})


def test_all_pods_of_the_job_mount_the_volume_that_their_command_writes() -> None:
    claim, job = yaml.safe_load_all((FOLDER / "kuberay.yaml").read_text())
    assert (claim["kind"], job["kind"], job["apiVersion"]) == ("PersistentVolumeClaim", "RayJob", "ray.io/v1")
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    words = shlex.split(job["spec"]["entrypoint"])
    check_mptctl(words[1:])
    cluster = job["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for group in groups:
        pod = group["template"]["spec"]
        (volume,) = pod["volumes"]
        assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        (container,) = pod["containers"]
        assert container["volumeMounts"] == [{"name": volume["name"], "mountPath": "/shared"}]
        assert container["resources"] == groups[0]["template"]["spec"]["containers"][0]["resources"]
    paths = [word for word in words if word.startswith("/")]
    assert len(paths) == 2
    assert all(path.startswith("/shared/") for path in paths)
    # As many runs at once as there are GPUs.
    pods = 1 + sum(group["replicas"] for group in cluster["workerGroupSpecs"])
    assert words[words.index("--parallel") + 1] == str(pods)


def test_torchrun_takes_what_the_slurm_script_gives_it(tmp_path: Path) -> None:
    from torch.distributed.run import parse_args

    slurm = {"SLURM_NNODES": "2", "SLURM_GPUS_ON_NODE": "4", "SLURM_JOB_ID": "17"}
    words = printed_by_srun("slurm-torchrun.sh", tmp_path, **slurm)
    assert words[0] == "torchrun"
    args = parse_args(words[1:])
    assert (args.nnodes, args.nproc_per_node, args.rdzv_endpoint) == ("2", "4", "node1:29500")
    assert (args.module, args.training_script) == (True, "mptctl")
    check_mptctl(args.training_script_args)
    assert "--resume" not in args.training_script_args


def test_ray_takes_what_the_slurm_script_gives_it(tmp_path: Path) -> None:
    from ray.scripts.scripts import start
    from ray.scripts.symmetric_run import curate_and_validate_ray_start_args

    slurm = {"SLURM_NNODES": "4", "SLURM_GPUS_ON_NODE": "4", "SLURM_CPUS_PER_TASK": "32"}
    words = printed_by_srun("slurm-ray.sh", tmp_path, **slurm)
    assert words[:3] == ["--no-kill", "ray", "symmetric-run"]
    place = words.index("--")
    node = curate_and_validate_ray_start_args(words[3:place])
    assert start.make_context("start", list(node)).params["num_gpus"] == 4
    program, *ours = words[place + 1 :]
    assert program == "mptctl"
    check_mptctl(ours)
    assert ours[ours.index("--ray-address") + 1] == words[words.index("--address") + 1] == "node1:6379"
