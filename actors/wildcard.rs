//! Wildcards: `*` any run of characters, `?` one. Nothing else means anything.

/// A text fits a pattern as a whole.
///
/// Linear space, and no backtracking beyond the last `*`: a pattern cannot be made slow.
pub fn fits(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<_>, Vec<_>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut star = None;
    while t < text.len() {
        if pattern.get(p) == Some(&'*') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p).is_some_and(|c| *c == '?' || *c == text[t]) {
            (p, t) = (p + 1, t + 1);
        } else if let Some((at, from)) = star {
            star = Some((at, from + 1));
            (p, t) = (at + 1, from + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// A host fits a name of hosts: itself, or with `*.` in front whatever is below that domain. Both in lower case.
pub fn fits_host(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(domain) => host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')),
        None => pattern == host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_whole_texts_only() {
        let table = [
            ("", "", true),
            ("*", "", true),
            ("a*", "abc", true),
            ("a*c", "abcd", false),
            ("*b*", "abc", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a]", "a", false),
            ("ä*", "äö", true),
        ];

        for (pattern, text, expected) in table {
            assert_eq!((pattern, text, fits(pattern, text)), (pattern, text, expected));
        }
    }
}
