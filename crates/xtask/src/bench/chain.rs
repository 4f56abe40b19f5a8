//! The cost of tying each record to the one before, including the copy of the links.

use serde::Deserialize;

use super::Row;
use crate::shell::Program;

const MICROS_MAX: f64 = 100.0;

/// The output of `ekiden-store`'s bench: a median for each size of records.
#[derive(Debug, Deserialize)]
struct Figures {
    chained_us: Vec<f64>,
    /// An append of the same records, without links.
    bare_us: Vec<f64>,
}

pub(super) fn measure() -> Result<Vec<Row>, String> {
    let measure = Program::cargo(&[
        "bench",
        "--locked",
        "--package",
        "ekiden-store",
        "--bench",
        "chain",
    ]);
    let figures: Figures = serde_json::from_str(&measure.output()?)
        .map_err(|error| format!("cannot understand what `{measure}` says: {error}"))?;
    Ok(vec![row(&figures)])
}

/// The size for which the chain costs the most.
fn row(figures: &Figures) -> Row {
    let pairs = figures.chained_us.iter().zip(&figures.bare_us);
    let costs = pairs.map(|(chained, bare)| (chained - bare, *bare));
    let most = costs.max_by(|(one, _), (other, _)| one.total_cmp(other));
    let (cost, bare) = most.unwrap_or((f64::NAN, f64::NAN));
    Row {
        what: "the chain, for each record".to_owned(),
        figure: format!("{cost:.1} µs"),
        baseline: format!("the append alone {bare:.1} µs"),
        promise: format!("at most {MICROS_MAX:.0} µs"),
        kept: cost <= MICROS_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dearest_size_counts() {
        let of = |chained_us: [f64; 2]| {
            row(&Figures {
                chained_us: chained_us.to_vec(),
                bare_us: vec![5.0, 20.0],
            })
        };
        assert_eq!(of([8.0, 33.0]).figure, "13.0 µs");
        assert!(of([8.0, 33.0]).kept && !of([106.0, 33.0]).kept);
        let none = Figures {
            chained_us: Vec::new(),
            bare_us: Vec::new(),
        };
        assert!(!row(&none).kept);
    }
}
