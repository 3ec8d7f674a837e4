//! The name of a tool on the wire, where only letters, digits, `_` and `-` are allowed.

use crate::system::sha256;

const LONGEST: usize = 64;
const KEPT: usize = 55;

/// The wire form of a canonical key.
pub(crate) fn wire_name(key: &str) -> String {
    let refused = |c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let name = key.replace('.', "__").replace(refused, "_");
    if name.len() <= LONGEST {
        return name;
    }
    format!("{}_{}", &name[..KEPT], &sha256(key.as_bytes())[..8])
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
