//! Points of the axes of `karl_core::objective`, read from their Python objects or words.

use karl_core::Offsets;
use karl_core::objective::{Aggregate, Clip, Penalty, Per, Ratio, Turns, Update};
use pyo3::prelude::*;

use crate::boundary::error::{UsageError, to_python};

pub(super) fn clip_of(object: &Bound<'_, PyAny>, clamp: Option<f64>) -> PyResult<Clip> {
    let kind = kind("clip", object)?;
    let number = |name: &str| object.getattr(name)?.extract::<f64>();
    let clip = match kind.as_str() {
        "none" => Ok(Clip::NONE),
        "clip" => Clip::ppo(number("low")?, number("high")?),
        "dual-clip" => Clip::dual(number("low")?, number("high")?, number("bound")?),
        "two-sided" => Clip::two_sided(number("low")?, number("high")?, number("delta")?),
        "cap" => Clip::cap(number("floor")?, number("ceiling")?),
        other => return Err(unknown("clip", other, "none, clip, dual-clip, two-sided or cap")),
    };
    let clamped = clip.and_then(|clip| clamp.map_or(Ok(clip), |nats| clip.clamped(nats)));
    clamped.map_err(|error| to_python(error.into()))
}

/// Return the aggregate with the denominator of a whole batch; without one, with that of its own tokens.
pub(super) fn aggregate_of(object: &Bound<'_, PyAny>, denominator: Option<f64>) -> PyResult<Aggregate> {
    let sequences = denominator;
    let aggregate = match kind("aggregate", object)?.as_str() {
        "sequence-mean" => Aggregate::SequenceMean { sequences },
        "token-mean" => Aggregate::TokenMean { tokens: denominator },
        "sequence-sum" => Aggregate::SequenceSum { sequences },
        "constant-length" => {
            Aggregate::ConstantLength { tokens: object.getattr("tokens")?.extract()?, sequences }
        }
        other => {
            let wanted = "sequence-mean, token-mean, constant-length or sequence-sum";
            return Err(unknown("aggregate", other, wanted));
        }
    };
    aggregate.check().map(|()| aggregate).map_err(|error| to_python(error.into()))
}

/// Return the rule of an update by its clip; that inside of one that masks negatives.
pub(super) fn update_of(object: &Bound<'_, PyAny>) -> PyResult<Update> {
    let number = |name: &str| object.getattr(name)?.extract::<f64>();
    Ok(match kind("clip", object)?.as_str() {
        "mask-negatives" => update_of(&object.getattr("clip")?)?,
        "geometric-clip" => Update::Geometric { low: number("low")?, high: number("high")? },
        "variance-penalty" => Update::Variance { strength: number("strength")? },
        "soft-gate" => Update::SoftGate { positive: number("positive")?, negative: number("negative")? },
        "flip" => Update::Flip { low: number("low")?, high: number("high")?, bound: number("bound")? },
        "delight" => Update::Delight { temperature: number("temperature")? },
        _ => Update::Bounded(clip_of(object, None)?),
    })
}

/// Return the least delta of the clips that mask negatives, one within the other; None without one.
pub(super) fn mask_negatives_of(object: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    if kind("clip", object)? != "mask-negatives" {
        return Ok(None);
    }
    let (own, inner) = (object.getattr("delta")?.extract()?, mask_negatives_of(&object.getattr("clip")?)?);
    Ok(Some(inner.map_or(own, |inner: f64| inner.min(own))))
}

/// Return the penalty in the loss by its point of the axis of divergences.
pub(super) fn penalty_of(object: &Bound<'_, PyAny>) -> PyResult<Penalty> {
    let coef = || object.getattr("coef")?.extract::<f64>();
    let by_ratio = || object.getattr("by_ratio")?.extract::<bool>();
    Ok(match kind("kl", object)?.as_str() {
        "k2" => Penalty::K2 { coef: coef()?, by_ratio: by_ratio()? },
        "k3" => Penalty::K3 { coef: coef()?, by_ratio: by_ratio()? },
        _ => Penalty::None,
    })
}

/// Return the word by which a point of an axis says what it is.
pub(super) fn kind(what: &str, object: &Bound<'_, PyAny>) -> PyResult<String> {
    let Ok(kind) = object.getattr("kind").and_then(|kind| kind.extract()) else {
        let got = object.get_type().name()?;
        return Err(UsageError::new_err(format!(
            "{what} is a {got}, wanted one of those in karl_fast.ratio"
        )));
    };
    Ok(kind)
}

pub(super) fn unknown(what: &str, got: &str, wanted: &str) -> PyErr {
    UsageError::new_err(format!("{what} is {got:?}, wanted {wanted}"))
}

/// Return the ratio of a level, and what one advantage is for. Turns are given where one of the two wants them, and only
/// there.
pub(super) fn places<'a>(
    level: &str,
    per: &str,
    turns: Option<Offsets<'a>>,
) -> PyResult<(Ratio<'a>, Per<'a>)> {
    let missing = || UsageError::new_err("turn_offsets are not given, wanted for level or per = \"turn\"");
    let ratio = match level {
        "token" => Ratio::Token,
        "turn" => Ratio::Turn(Turns::Offsets(turns.ok_or_else(missing)?)),
        "sequence" => Ratio::Sequence,
        "sequence-product" => Ratio::SequenceProduct,
        "sequence-token" => Ratio::SequenceToken,
        other => {
            let wanted = "token, turn, sequence, sequence-product or sequence-token";
            return Err(unknown("level", other, wanted));
        }
    };
    let per = match per {
        "sequence" => Per::Sequence,
        "turn" => Per::Turn(turns.ok_or_else(missing)?),
        "token" => Per::Token,
        other => return Err(unknown("per", other, "sequence, turn or token")),
    };
    let used = matches!(ratio, Ratio::Turn(_)) || matches!(per, Per::Turn(_));
    if turns.is_some() && !used {
        return Err(UsageError::new_err("turn_offsets are given, wanted only for level or per = \"turn\""));
    }
    Ok((ratio, per))
}
