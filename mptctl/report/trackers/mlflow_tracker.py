"""Log to MLflow: to the server that MLFLOW_TRACKING_URI names, or else to a database in the run root."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mptctl.report.trackers.tracker import PROJECT, Entry

# Keys that MLflow takes in one call.
AT_ONCE = 100


class MlflowTracker:
    """Logs to MLflow; an entry is a run of the experiment MLFLOW_EXPERIMENT_NAME, or else ``mptctl``."""

    def __init__(self) -> None:
        # MLflow would print a link where --json prints its object, and log each step of making its database.
        os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
        # MLflow's own patience with a server that does not answer, 120 s eight times, would hold up a
        # training.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        from mlflow import MlflowClient, entities

        logging.getLogger("mlflow").setLevel(logging.ERROR)
        logging.getLogger("alembic").setLevel(logging.ERROR)
        self._make_client = MlflowClient
        self._entities = entities
        self._run = ""
        self._newest_call: Any = None

    def open(self, entry: Entry) -> str:
        """Begin a run of MLflow, or go on with the one that the entry names, and return its id."""
        server = os.environ.get("MLFLOW_TRACKING_URI")
        root = entry.root.resolve()
        self._client = self._make_client(server or f"sqlite:///{root / 'mlflow.db'}")
        if entry.known_as is not None:
            self._client.update_run(entry.known_as, status="RUNNING")
            self._run = entry.known_as
            return self._run
        files = None if server else (root / "mlflow-files").as_uri()
        self._run = self._client.create_run(self._experiment_id(files), run_name=entry.name).info.run_id
        return self._run

    def _experiment_id(self, files: str | None) -> Any:
        """The id of the experiment; one that is not there is made, with its artifacts below ``files``."""
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        experiment = self._client.get_experiment_by_name(name)
        if experiment is not None:
            return experiment.experiment_id
        return self._client.create_experiment(name, artifact_location=files)

    def settings(self, values: Mapping[str, object]) -> None:
        """Log the values as params."""
        params = [self._entities.Param(key, str(value)) for key, value in values.items()]
        for first in range(0, len(params), AT_ONCE):
            self._client.log_batch(self._run, params=params[first : first + AT_ONCE])

    def progress(self, values: Mapping[str, float], step: int) -> None:
        """Log the values as metrics, by MLflow's own queue."""
        now = time.time_ns() // 1_000_000
        metrics = [self._entities.Metric(key, value, now, step) for key, value in values.items()]
        self._newest_call = self._client.log_batch(self._run, metrics=metrics, synchronous=False)

    result = progress

    def attach(self, file: Path) -> None:
        """Log the file as an artifact."""
        self._client.log_artifact(self._run, str(file))

    def close(self, *, finished: bool) -> None:
        """Wait for MLflow's queue, and set the status of the run to FINISHED or KILLED."""
        if self._newest_call is not None:
            self._newest_call.wait()
        self._client.set_terminated(self._run, status="FINISHED" if finished else "KILLED")


TRACKER = MlflowTracker
