"""What is claimed of a converted model's Q and K, measured on the matrices it holds."""

from transformers import PreTrainedModel

from oelm.config.record import LayerGeometry
from oelm.method import geometry
from oelm.surgery.conversion import conversion_of
from oelm.surgery.sites import open_sites


def measure_geometry(model: PreTrainedModel) -> tuple[LayerGeometry, ...]:
    """One row per attention site, in the order of the layers; nothing of blind ones."""
    rows, conversion = [], conversion_of(model)
    if conversion.operation.method.blind:
        return ()
    for site in open_sites(model, conversion.attention):
        q_HKD, k_HKD = site.query.w_HKD.cpu(), site.key.w_HKD.cpu()
        # Matched heads keep lengths of their own; the Gram error is of their directions.
        unit_q_HKD, unit_k_HKD = (conversion.operation.directions(w_HKD) for w_HKD in (q_HKD, k_HKD))
        # Grouped queries: several query heads meet one key head.
        paired_HKD = k_HKD.repeat_interleave(site.query.heads // site.key.heads, dim=0)
        rows.append(
            LayerGeometry(
                layer=site.layer,
                query_gram_error=geometry.gram_error(unit_q_HKD),
                key_gram_error=geometry.gram_error(unit_k_HKD),
                cross_head_overlap=geometry.cross_head_overlap(unit_q_HKD),
                row_norm=geometry.row_norm(q_HKD),
                logit_std=geometry.logit_std(q_HKD, paired_HKD),
            )
        )
    return tuple(rows)
