//! What is taken out of text, whole and in pieces.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use proptest::prelude::*;

use super::{stream::LONGEST_HELD, *};

const KEY: &str = "kéy/with+odd chars\"9";

#[test]
fn a_known_value_is_replaced_in_every_form() {
    let scrubber = Scrubber::new([KEY]);
    let shifted = STANDARD.encode(format!("x{KEY}yz"));
    let forms = [
        KEY.to_owned(),
        STANDARD.encode(KEY),
        URL_SAFE_NO_PAD.encode(KEY),
        "k%C3%A9y%2Fwith%2Bodd%20chars%229".to_owned(),
        "k%c3%a9y%2fwith%2bodd%20chars%229".to_owned(),
        r#"kéy/with+odd chars\"9"#.to_owned(),
        "6bc3a9792f776974682b6f64642063686172732239".to_owned(),
    ];

    for form in forms {
        let text = format!("a {form} b");
        assert_eq!(scrubber.scrub(&text), "a [REDACTED] b", "{form}");
    }
    assert!(scrubber.scrub(&shifted).contains(REDACTED), "{shifted}");
}

fn masks(values: &[(&str, &str)]) -> Vec<Mask> {
    let masks = values.iter().map(|(key, value)| {
        let value = Arc::new(Zeroizing::new(value.as_bytes().to_vec()));
        Mask::reference(value, key)
    });
    masks.collect()
}

/// MV-48
#[test]
fn a_value_of_the_vault_becomes_its_reference_and_any_other_a_mark() {
    let mut masks = masks(&[("GITHUB", "first-of-values"), ("SAME", "provider-value")]);
    masks.extend(["provider-value", "provider-key"].map(Mask::hidden));
    let scrubber = Scrubber::with(masks);

    let text = "a first-of-values b provider-key token=first-of-values provider-value";

    assert_eq!(
        scrubber.scrub(text),
        "a ${vault:GITHUB} b [REDACTED] token=${vault:GITHUB} ${vault:SAME}"
    );
    assert_eq!(scrubber.key_in("a provider-key b"), None);
    assert_eq!(scrubber.key_in("provider-key, first-of-values"), Some("GITHUB"));
}

/// MV-49
#[test]
fn of_values_that_begin_alike_the_longest_is_meant() {
    let scrubber = Scrubber::with(masks(&[
        ("SHORT", "sk-live-abc"),
        ("LONG", "sk-live-abcdefghij"),
        ("OTHER", "sk-live-other"),
        ("TINY", "sk-l"),
    ]));

    assert_eq!(
        scrubber.scrub_known("sk-live-abcdefghij sk-live-abcd sk-live-other sk-lift"),
        "${vault:LONG} ${vault:SHORT}d ${vault:OTHER} ${vault:TINY}ift"
    );
    // What is left of one that another runs into is no less secret.
    let overlapping = Scrubber::with(masks(&[("A", "abcdefgh"), ("B", "efghijkl")]));
    assert_eq!(overlapping.scrub("-abcdefghijkl-"), "-${vault:A}-");
}

/// MV-79, MV-49
#[test]
fn the_text_around_a_value_stays_as_it_is() {
    let value = "canary/value+7=ü";
    let scrubber = Scrubber::with(masks(&[("KEY", value)]));
    let quoted = serde_json::json!({ "password": value, "n": 1 }).to_string();
    let basic = format!("Basic {}", STANDARD.encode(format!("user:{value}")));

    assert_eq!(scrubber.scrub(&quoted), r#"{"n":1,"password":"${vault:KEY}"}"#);
    assert_eq!(scrubber.scrub(&basic), "Basic dXNlcjp${vault:KEY}");
    for before in ["", "x", "xy"] {
        let text = STANDARD.encode(format!("{before}{value}"));
        let clean = scrubber.scrub(&text).into_owned();
        let head = &text[..[0, 2, 3][before.len()]];
        assert_eq!(clean, format!("{head}${{vault:KEY}}"), "{text}");
    }
}

/// A value may be 64 KiB long; what is kept to find it is not.
#[test]
fn a_long_value_is_found_by_its_beginning_and_compared_to_its_end() {
    let value: String = (0..8_000).map(|number| format!("{number:08x}")).collect();
    let scrubber = Scrubber::with(masks(&[("LONG", &value)]));
    let encoded = STANDARD.encode(format!("x{value}"));

    assert_eq!(scrubber.scrub(&format!("<{value}>")), "<${vault:LONG}>");
    assert_eq!(scrubber.scrub(&encoded).len(), 2 + "${vault:LONG}".len());
    assert_eq!(scrubber.scrub(&value[..63_999]), value[..63_999]);
    let heads = &scrubber.0.heads;
    assert!(heads.len() <= 14 && heads.iter().all(|head| head.bytes.len() <= HEAD));
    let mut stream = scrubber.stream();
    let mut out = stream.push("<");
    for piece in value.as_bytes().chunks(5_000) {
        out.push_str(&stream.push(std::str::from_utf8(piece).unwrap()));
    }
    out.push_str(&stream.push(">"));
    assert_eq!(out, "<${vault:LONG}>");
}

#[test]
fn text_without_secrets_is_not_copied() {
    let text = "nothing to see in this task-force";

    assert!(matches!(
        Scrubber::new([KEY]).scrub(text),
        Cow::Borrowed(same) if same == text
    ));
}

#[test]
fn a_stream_lets_harmless_text_through_at_once() {
    let mut stream = Scrubber::new(["abcdefgh"]).stream();

    assert_eq!(stream.push("hello "), "hello ");
    assert_eq!(stream.push("abc"), "");
    assert_eq!(stream.push("x"), "abcx");
    assert_eq!(stream.finish(), "");
}

#[test]
fn a_stream_does_not_hold_back_for_ever() {
    let mut stream = Scrubber::new([""; 0]).stream();

    let out = stream.push(&format!("token={}", "a".repeat(LONGEST_HELD + 1)));

    assert_eq!(out, "token=[REDACTED]");
}

/// MV-50: behind something that looks like a key and does not end, a known value is still caught.
#[test]
fn a_stream_that_lets_go_of_a_shape_keeps_a_known_value_whole() {
    let mut stream = Scrubber::with(masks(&[("KEY", "secret-value")])).stream();
    let begun = format!("-----BEGIN PRIVATE KEY-----\n{}", "a ".repeat(LONGEST_HELD));

    let mut out = stream.push(&format!("{begun}secret-"));
    out.push_str(&stream.push("value and more"));
    out.push_str(&stream.finish());

    assert!(!out.contains("secret-") && !out.contains("value"), "{out}");
}

proptest! {
    /// MV-49: bytes that are no text may be parts of the characters of a text, which are not the value.
    #[test]
    fn a_value_that_is_no_text_is_found_encoded_and_cuts_no_character(
        words in prop::collection::vec(
            prop::sample::select(vec!["£", "s", "e", "Â", "€", "%", "%a3", "%c2", "é", " "]),
            1..10,
        ),
        place in (0_usize..20, 1_usize..12),
    ) {
        let text = words.concat();
        let from = place.0.min(text.len() - 1);
        // From the middle of a character to that of another.
        let value = &text.as_bytes()[from..(from + place.1).min(text.len())];
        let encoded: String = value.iter().map(|byte| match byte {
            byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
            byte => format!("%{byte:02X}"),
        }).collect();
        let scrubber = Scrubber::with(vec![Mask::hidden(value)]);
        let mut stream = scrubber.stream();

        let whole = scrubber.scrub_known(&text);
        let pieces = text.chars().map(|letter| stream.push(letter.encode_utf8(&mut [0; 4])));
        let mut pieces: String = pieces.collect();
        pieces.push_str(&stream.finish());

        if let Ok(value) = std::str::from_utf8(value) {
            prop_assert!(!whole.contains(value) && !pieces.contains(value), "{}", whole);
        }
        if encoded.len() >= 8 {
            let found = scrubber.scrub_known(&encoded);
            prop_assert!(!found.contains(&encoded), "{}", found);
        }
    }

    /// MV-50: a value that is split between pieces is caught like a whole one.
    #[test]
    fn however_it_is_split_a_stream_gives_the_scrubbed_text(
        words in prop::collection::vec(prop::sample::select(vec![
            "hello ", "kéy", "secret-value", "secret-", "value", "c2VjcmV0LXZhbHVl", "c2VjcmV0", " ",
            "ZS0y", "eHZhbHVlLTI=", "dmFsdWUt", "Mg", "==", "2", "76616c75652d", "32",
            "token=", "abc123", "\n", "Bearer ", "sk-abcdefghijklmnop", "ta", "sk-", "api_key", ": ", "\"",
            "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "AKIAABCDEFGHIJKLMNOP", "ö",
        ]), 0..12),
        sizes in prop::collection::vec(1_usize..9, 1..20),
    ) {
        let text = words.concat();
        let scrubber = Scrubber::new(["secret-value", "value-2"]);
        let mut stream = scrubber.stream();
        let mut out = String::new();
        let chars: Vec<char> = text.chars().collect();
        let (mut at, mut turn) = (0, 0);
        while at < chars.len() {
            let end = (at + sizes[turn % sizes.len()]).min(chars.len());
            out.push_str(&stream.push(&chars[at..end].iter().collect::<String>()));
            (at, turn) = (end, turn + 1);
        }
        out.push_str(&stream.finish());

        prop_assert!(!out.contains("secret-value"));
        let whole = scrubber.scrub(&text).into_owned();
        // Lines may end anywhere in it.
        let [text, joined, found] = [&text, &out, &whole].map(|text| text.replace('\n', ""));
        if text.contains("dmFsdWUtMg") {
            // Encoded without its padding, the value ends in the middle of a character: what follows
            // tells whether the rest of that belongs to it, and a stream cannot know that yet.
            prop_assert!(!joined.contains("dmFsdWUtM") && !found.contains("dmFsdWUtM"));
        } else {
            prop_assert_eq!(out, whole);
        }
    }
}

/// MV-49, MV-50: whichever characters an encoder leaves, and wherever it ends lines, whole and in
/// pieces.
#[test]
fn a_value_is_found_in_every_percent_encoding_and_over_the_ends_of_lines() {
    let value = "Pa$$w0rd! (of/the)=long~one, which:takes@more than one line & goes on and on";
    let scrubber = Scrubber::with(masks(&[("KEY", value)]));
    let encode = |left: &str, space: &str, upper: bool| -> String {
        let bytes = value.bytes().map(|byte| match byte {
            b' ' => space.to_owned(),
            byte if byte.is_ascii_alphanumeric() || left.as_bytes().contains(&byte) => {
                char::from(byte).to_string()
            }
            byte if upper => format!("%{byte:02X}"),
            byte => format!("%{byte:02x}"),
        });
        bytes.collect()
    };
    let wrap = |text: String, width: usize, line_end: &str| -> String {
        let lines: Vec<_> = text.as_bytes().chunks(width).collect();
        let lines = lines.into_iter().map(String::from_utf8_lossy);
        lines.collect::<Vec<_>>().join(line_end)
    };
    let mut texts = Vec::new();
    for left in ["", "-._~", "-._~!'()*", "-._~!$&'()*+,;=:@", "*-._", "/~"] {
        for (space, upper) in [("%20", true), ("%20", false), ("+", true), ("+", false)] {
            texts.push((encode(left, space, upper), "<${vault:KEY}>"));
        }
    }
    for line_end in ["\n", "\r\n", "\\n", "\\r\\n"] {
        for width in [76, 64] {
            let encoded = wrap(STANDARD.encode(value), width, line_end);
            texts.push((encoded, "<${vault:KEY}>"));
        }
        let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
        texts.push((wrap(hex, 60, line_end), "<${vault:KEY}>"));
    }

    for (text, expected) in texts {
        let text = format!("<{text}>");
        assert_eq!(scrubber.scrub_known(&text), expected, "{text}");
        assert!(scrubber.suspects(&text), "{text}");
        for size in 1..20 {
            let mut stream = scrubber.stream();
            let pieces = text.as_bytes().chunks(size);
            let pieces = pieces.map(|piece| stream.push(std::str::from_utf8(piece).unwrap()));
            let mut out: String = pieces.collect();
            out.push_str(&stream.finish());
            assert_eq!(out, expected, "{text} in pieces of {size}");
        }
    }
}

/// MV-49, MV-50: wherever in lines of base64 it lies, also where a line ends within its first bytes.
#[test]
fn a_value_is_found_anywhere_in_lines_of_base64() {
    let value = "secret-value-of-a-team";
    let scrubber = Scrubber::with(masks(&[("KEY", value)]));
    for before in 30..60 {
        for (width, line_end) in [(76, "\n"), (64, "\r\n"), (76, "\\n")] {
            let whole = STANDARD.encode(format!("{}{value} and more", "x".repeat(before)));
            let lines = whole.as_bytes().chunks(width);
            let lines = lines.map(|line| std::str::from_utf8(line).unwrap());
            let text = lines.collect::<Vec<_>>().join(line_end);

            let clean = scrubber.scrub_known(&text).into_owned();
            let mut stream = scrubber.stream();
            let pieces = text.as_bytes().chunks(3);
            let pieces = pieces.map(|piece| stream.push(std::str::from_utf8(piece).unwrap()));
            let mut out: String = pieces.collect();
            out.push_str(&stream.finish());

            // Whether the last character belongs to it, a stream may not know yet.
            assert!(clean.contains("${vault:KEY}"), "{before} {text}");
            assert!(out.contains("${vault:KEY}"), "{before} {text}");
        }
    }
}
