//! Limits of JSON texts: depth and number of values, looked at before anything is built.

/// The deepest nesting.
const DEEPEST: usize = 64;
/// The most values, containers included.
const MOST_VALUES: usize = 100_000;

/// Why a text is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooMuch {
    /// It is nested too deep.
    #[error("nested deeper than {DEEPEST} levels")]
    Deep,
    /// It holds too much.
    #[error("it holds more than {MOST_VALUES} values")]
    Many,
}

/// Looks at a text that may be JSON. What is not is found out by whoever reads it.
pub(crate) fn check(text: &[u8]) -> Result<(), TooMuch> {
    let (mut depth, mut values) = (0_usize, 1_usize);
    // A container was opened, and nothing stands in it so far.
    let mut is_empty = false;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => continue,
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                is_empty = false;
                continue;
            }
            _ => {}
        }
        if std::mem::take(&mut is_empty) {
            values += 1;
        }
        match byte {
            b'[' | b'{' => {
                depth += 1;
                is_empty = true;
            }
            b',' => values += 1,
            b'"' => skip_string(&mut bytes),
            _ => {}
        }
        if depth > DEEPEST {
            return Err(TooMuch::Deep);
        }
        if values > MOST_VALUES {
            return Err(TooMuch::Many);
        }
    }
    Ok(())
}

fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            // The next one is escaped, be it a quote or the rest of a code.
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {

    use serde_json::Value;

    use super::*;

    fn nested(levels: usize) -> String {
        format!("{}{}", "[".repeat(levels), "]".repeat(levels))
    }

    fn count(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(count).sum(),
            Value::Object(fields) => fields.values().map(count).sum(),
            _ => 0,
        }
    }

    /// SC-76
    #[test]
    fn nesting_ends_at_64_levels() {
        assert_eq!(check(nested(64).as_bytes()), Ok(()));
        assert_eq!(check(nested(65).as_bytes()), Err(TooMuch::Deep));
        assert_eq!(check(r#"{"a": "[[\"[[" }"#.as_bytes()), Ok(()));
        let flat = "[],".repeat(200);
        assert_eq!(check(flat.as_bytes()), Ok(()));
    }

    /// SC-76: as many values as are allowed pass, and not one more, whatever they are.
    #[test]
    fn values_are_counted_to_the_last() {
        for (item, values) in
            [("1", 1), ("[]", 1), ("{ }", 1), (r#"{"a,": [1, "[,"]}"#, 4), ("[[2]]", 3)]
        {
            let of = |times: usize| format!("[{}]", vec![item; times].join(" , "));
            let most = (MOST_VALUES - 1) / values;
            let text = of(most);
            assert_eq!(count(&serde_json::from_str(&text).unwrap()), 1 + most * values);
            assert_eq!(check(text.as_bytes()), Ok(()), "{item}");
            assert_eq!(check(of(most + 1).as_bytes()), Err(TooMuch::Many), "{item}");
        }
    }
}
