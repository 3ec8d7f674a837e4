//! The name of a tool on the wire, where only letters, digits, `_` and `-` are allowed.

use sha2::{Digest, Sha256};

const LONGEST: usize = 64;
const KEPT: usize = 55;

/// The wire form of a canonical key.
pub(crate) fn wire_name(key: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name: String =
        key.replace('.', "__").chars().map(|c| if allowed(c) { c } else { '_' }).collect();
    if name.len() <= LONGEST {
        return name;
    }
    let digest = Sha256::digest(key.as_bytes());
    let hex: String = digest[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}_{hex}", &name[..KEPT])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SE-55
    #[test]
    fn dots_become_two_underscores_and_long_names_end_in_a_digest() {
        let long = format!("engineering.{}", "x".repeat(60));

        let names = ["read", "mcp.github.create_issue", "a.b c", &long].map(wire_name);

        let shortened = format!("engineering__{}_448ad802", "x".repeat(42));
        assert_eq!(names, ["read", "mcp__github__create_issue", "a__b_c", &shortened]);
    }
}
