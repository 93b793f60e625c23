"""Put a comparison into named numbers, for logs of training loops and trackers."""

from __future__ import annotations

from mptctl.evaluation.flip_report import FlipReport


def flip_metrics(report: FlipReport) -> dict[str, float]:
    """Rates, as fractions, and counts of a comparison by name; rates that are not defined are left out."""
    metrics = {
        "nfr": report.nfr,
        "nfr_low": report.nfr_ci95[0],
        "nfr_high": report.nfr_ci95[1],
        "negative_flips": report.counts.negative_flips,
        "positive_flips": report.counts.positive_flips,
        "n_old": report.n_old,
        "lost": report.lost,
        "rel_nfr": report.rel_nfr,
        "er_old_classes": report.new.er_old_classes,
        "er_all": report.new.er_all,
    }
    return {name: value for name, value in metrics.items() if value is not None}
