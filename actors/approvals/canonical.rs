//! Canonical JSON (RFC 8785): one text for one value, so that a digest of it means something.

use serde_json::{Number, Value, json};

/// The one text of a value: members sorted by their UTF-16 code units, no spaces.
///
/// Whole numbers keep all their digits, where the RFC would round those beyond 2⁵³: two that differ
/// must not have the same digest.
pub fn canonical(value: &Value) -> String {
    match value {
        // Strings are written as ECMAScript does.
        Value::Null | Value::Bool(_) | Value::String(_) => value.to_string(),
        Value::Number(number) => digits(number),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
            let member = |(key, value)| format!("{}:{}", json!(key), canonical(value));
            let members: Vec<String> = members.into_iter().map(member).collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

/// As ECMAScript writes numbers.
fn digits(number: &Number) -> String {
    if number.is_i64() || number.is_u64() {
        return number.to_string();
    }
    let float = number.as_f64().unwrap_or_default();
    if float == 0.0 {
        return "0".to_owned();
    }
    // The shortest digits that mean the number, and where its point stands.
    let shortest = format!("{:e}", float.abs());
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let point = exponent.parse::<i32>().unwrap_or_default() + 1;
    let count = i32::try_from(digits.len()).unwrap_or_default();
    let sign = if float < 0.0 { "-" } else { "" };
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or_default());
    let body = if (count..=21).contains(&point) {
        format!("{digits}{}", zeros(point - count))
    } else if (1..=21).contains(&point) {
        let (whole, part) = digits.split_at(usize::try_from(point).unwrap_or_default());
        format!("{whole}.{part}")
    } else if (-5..=0).contains(&point) {
        format!("0.{}{digits}", zeros(-point))
    } else {
        let (first, rest) = digits.split_at(1);
        let rest = match rest {
            "" => String::new(),
            rest => format!(".{rest}"),
        };
        let exponent = point - 1;
        let plus = if exponent > 0 { "+" } else { "" };
        format!("{first}{rest}e{plus}{exponent}")
    };
    format!("{sign}{body}")
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;

    use super::*;

    /// The example of RFC 8785, 3.2.
    #[test]
    fn the_example_of_the_rfc_comes_out_as_printed() {
        let value: Value = serde_json::from_str(
            r#"{
                "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
                "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
                "literals": [null, true, false]
            }"#,
        )
        .unwrap();

        assert_eq!(
            canonical(&value),
            "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\
             \"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}"
        );
    }

    /// RFC 8785, 3.2.3: by code unit, so a letter beyond the basic plane comes before some in it.
    #[test]
    fn members_are_sorted_by_code_unit() {
        let value = json!({
            "\u{20ac}": 1, "\r": 2, "\u{fb33}": 3, "1": 4, "\u{1f600}": 5, "\u{80}": 6, "\u{f6}": 7,
        });

        let text = canonical(&value);

        let order: Vec<_> = text.bytes().filter(u8::is_ascii_digit).collect();
        // "1" is the one key that is a digit itself; it stands before its value.
        assert_eq!(order, b"21467153");
    }

    #[test]
    fn numbers_are_written_as_in_ecmascript() {
        let table = [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (1e21, "1e+21"),
            (1e20, "100000000000000000000"),
            (123e-8, "0.00000123"),
            (1e-7, "1e-7"),
            (9.5e-7, "9.5e-7"),
            (5e-324, "5e-324"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
        ];

        for (number, text) in table {
            assert_eq!(canonical(&json!(number)), text);
        }
        assert_eq!(canonical(&json!(9_007_199_254_740_993_u64)), "9007199254740993");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(".{0,4}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// Reading it back gives the same text again, so different values have different texts.
        #[test]
        fn the_text_is_json_and_stands_for_itself(value in any_json()) {
            let text = canonical(&value);
            let again: Value = serde_json::from_str(&text).unwrap();

            prop_assert_eq!(canonical(&again), text);
        }
    }
}
