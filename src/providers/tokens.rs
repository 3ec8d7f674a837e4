//! Token counts as providers tell them.

use serde::Deserialize;

/// No call reads or writes as many. What says more is taken for this, so that no sum of calls overflows and no budget
/// begins anew.
const MOST: u64 = 1 << 40;

/// A count within reason.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(from = "u64")]
pub(crate) struct Tokens(pub(crate) u64);

impl From<u64> for Tokens {
    fn from(told: u64) -> Self {
        Self(told.min(MOST))
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    /// SC-15, SE-139
    #[test]
    fn a_figure_beyond_all_sense_is_cut_down() {
        let read = |text: &str| serde_json::from_str::<Tokens>(text).unwrap().0;

        assert_eq!(read("128000"), 128_000);
        assert_eq!(read("18446744073709551615"), MOST);
    }
}
