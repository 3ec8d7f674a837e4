//! Which tools a team may see: the patterns of `allowed_tools`.

use hivewright_actors::wildcard::fits;

use super::{about::GivenTo, registry::Registry, wire::wire_name};
use crate::settings::tool_groups::{self, ToolGroup, WITHOUT_TOOLS};

/// The pattern for all tools of plugins.
const PLUGINS: &str = ToolGroup::Plugins.as_str();

/// Why a list of patterns cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// No family has this name.
    #[error("{}", tool_groups::unknown(name))]
    UnknownGroup { name: String },
    /// A pattern that says nothing.
    #[error("empty tool pattern")]
    Empty,
}

/// A checked list of patterns. The default allows nothing.
#[derive(Clone, Debug, Default)]
pub struct ToolFilter {
    registry: Registry,
    allowed: Vec<String>,
    removed: Vec<String>,
    /// What it leaves must pass these as well.
    within: Vec<ToolFilter>,
    /// Allowed whatever else is said.
    always: Vec<&'static str>,
}

impl ToolFilter {
    /// Reads patterns: `*` any run of characters, `?` one, `@group` a family, `!` in front removes.
    pub fn parse<S: AsRef<str>>(patterns: &[S], registry: Registry) -> Result<Self, FilterError> {
        let mut filter = Self { registry, ..Self::default() };
        for pattern in patterns {
            let pattern = pattern.as_ref().trim();
            let (list, pattern) = match pattern.strip_prefix('!') {
                Some(pattern) => (&mut filter.removed, pattern),
                None => (&mut filter.allowed, pattern),
            };
            if pattern.is_empty() {
                return Err(FilterError::Empty);
            }
            match pattern.parse() {
                Ok(group) => list.extend(registry.members(group).map(str::to_owned)),
                Err(_) if pattern == WITHOUT_TOOLS => {}
                Err(_) if pattern.starts_with('@') => {
                    return Err(FilterError::UnknownGroup { name: pattern.to_owned() });
                }
                Err(_) => list.push(pattern.to_owned()),
            }
        }
        Ok(filter)
    }

    /// The tools that its groups are made of.
    pub fn registry(&self) -> Registry {
        self.registry
    }

    /// Whether all that a pattern could name is the team's: a tool by its key, a group, or a pattern
    /// that is in this list as it stands.
    pub fn covers(&self, pattern: &str) -> bool {
        match pattern.parse() {
            // A group can be a member of itself: it also stands for tools that nobody knows beforehand.
            Ok(group) => self.registry.members(group).all(|member| {
                if member == pattern { self.lists(member) } else { self.covers(member) }
            }),
            // What gives nothing is always covered.
            Err(_) if pattern == WITHOUT_TOOLS => true,
            Err(_) if is_wild(pattern) => self.lists(pattern),
            Err(_) => self.allows(pattern),
        }
    }

    /// Whether a pattern is in this list as it stands, and nothing that it could name is removed.
    fn lists(&self, pattern: &str) -> bool {
        let same = |allowed: &String| allowed == pattern || allowed == "*";
        let apart = |removed: &String| !is_wild(removed) && !self.names(pattern, removed);
        self.allowed.iter().any(same)
            && self.removed.iter().all(apart)
            && self.within.iter().all(|filter| filter.lists(pattern))
    }

    /// The same for a team below the main one, which some tools belong to alone.
    pub fn below_root(self) -> Self {
        self.without(GivenTo::Main)
    }

    /// The same for the main team, which has nobody above it.
    pub fn at_root(self) -> Self {
        self.without(GivenTo::BelowMain)
    }

    fn without(mut self, given_to: GivenTo) -> Self {
        let tools = self.registry.abouts().filter(|about| about.given_to == given_to);
        self.removed.extend(tools.map(|about| about.keys.to_owned()));
        self
    }

    /// Whether a tool, named by its canonical key, is the team's. Removed wins, in whatever order.
    pub fn allows(&self, key: &str) -> bool {
        let any = |list: &[String]| list.iter().any(|pattern| self.names(pattern, key));
        let within = || self.within.iter().all(|filter| filter.allows(key));
        self.always.contains(&key) || any(&self.allowed) && !any(&self.removed) && within()
    }

    /// Whether it could allow a tool whose key begins so.
    pub fn could_allow(&self, beginning: &str) -> bool {
        let wired = wire_name(beginning);
        let meets = |pattern: &String| {
            if pattern == PLUGINS {
                return is_of_plugin(beginning);
            }
            let fixed = pattern.split(['*', '?']).next().unwrap_or_default();
            [beginning, wired.as_str()].iter().any(|beginning| {
                fixed.starts_with(beginning) || is_wild(pattern) && beginning.starts_with(fixed)
            })
        };
        self.allowed.iter().any(meets)
            && self.within.iter().all(|filter| filter.could_allow(beginning))
    }

    /// The same, and one tool more, whatever else is said.
    pub fn and_always(mut self, key: &'static str) -> Self {
        self.always.push(key);
        self
    }

    /// The same, but only what the other allows too.
    pub fn narrowed(mut self, by: Self) -> Self {
        self.within.push(by);
        self
    }

    fn names(&self, pattern: &str, key: &str) -> bool {
        if pattern == PLUGINS {
            return is_of_plugin(key);
        }
        // A built-in tool matches in any case.
        if self.registry.built_in().any(|tool| tool == key) {
            return fits(&pattern.to_lowercase(), key);
        }
        fits(pattern, key) || fits(pattern, &wire_name(key))
    }
}

fn is_wild(pattern: &str) -> bool {
    pattern.contains(['*', '?']) || pattern == PLUGINS
}

/// Plugins bring namespaces that nobody knows beforehand: their group is told by what its keys are not.
fn is_of_plugin(key: &str) -> bool {
    key.contains('.') && !["mcp.", "agent."].iter().any(|other| key.starts_with(other))
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::tools::REGISTRY;

    fn read(patterns: &[&str]) -> ToolFilter {
        ToolFilter::parse(patterns, REGISTRY).unwrap()
    }

    fn allowed(patterns: &[&str], keys: &[&'static str]) -> Vec<&'static str> {
        let filter = read(patterns);
        keys.iter().copied().filter(|key| filter.allows(key)).collect()
    }

    const KEYS: &[&str] = &["bash", "read", "write", "web_fetch", "team.deploy", "mcp.git.log"];

    /// SE-51
    #[test]
    fn patterns_allow_and_removal_wins_in_any_order() {
        let table: [(&[&str], &[&str]); 8] = [
            (&[], &[]),
            (&["*"], KEYS),
            (&["*", "!bash"], &KEYS[1..]),
            (&["!bash", "*"], &KEYS[1..]),
            (&["w*"], &["write", "web_fetch"]),
            (&["rea?"], &["read"]),
            (&["@files", "!@shell"], &["read", "write"]),
            (&["team.*"], &["team.deploy"]),
        ];

        for (patterns, expected) in table {
            assert_eq!((patterns, allowed(patterns, KEYS)), (patterns, expected.to_vec()));
        }
    }

    /// SE-77, TO-46
    #[test]
    fn a_narrower_filter_takes_away_and_never_adds() {
        let narrow = |team: &[&str], own: &[&str]| {
            let filter = read(team).narrowed(read(own));
            let left = KEYS.iter().copied().filter(|key| filter.allows(key));
            left.collect::<Vec<_>>()
        };

        assert_eq!(narrow(&["read", "write"], &["*"]), ["read", "write"]);
        assert_eq!(narrow(&["*", "!bash"], &["bash", "read"]), ["read"]);
        assert_eq!(
            narrow(&["*"], &["*", "!team.*", "!@files"]),
            ["bash", "web_fetch", "mcp.git.log"]
        );
        assert_eq!(narrow(&["*"], &[]), [] as [&str; 0]);
    }

    /// SE-52, TO-62
    #[test]
    fn built_ins_match_in_any_case_and_others_exactly_or_by_wire_form() {
        let table: [(&[&str], &[&str]); 5] = [
            (&["Read", "BASH"], &["bash", "read"]),
            (&["WRI*"], &["write"]),
            (&["Web_Fetch"], &[]),
            (&["mcp__git__log"], &["mcp.git.log"]),
            (&["MCP.git.log"], &[]),
        ];

        for (patterns, expected) in table {
            assert_eq!((patterns, allowed(patterns, KEYS)), (patterns, expected.to_vec()));
        }
    }

    /// OR-62, TO-46: a group may hold patterns, and `@plugins` holds itself.
    #[test]
    fn a_group_is_covered_by_itself_and_by_all_and_by_nothing_else() {
        for group in ToolGroup::ALL.iter().map(|group| group.as_str()) {
            let covers = |patterns: &[&str]| read(patterns).covers(group);

            let told = [covers(&[group]), covers(&["*"]), covers(&["*", &format!("!{group}")])];

            assert_eq!((group, told, covers(&[])), (group, [true, true, false], false));
        }
        let without = |removed| read(&["*", removed]);
        assert!(without("!bash").covers("@plugins"));
        assert!(!without("!team.deploy").covers("@plugins"));
        assert!(!without("!@plugins").covers("team.*"));
    }

    /// SE-51, OR-19
    #[test]
    fn an_unknown_group_is_refused_with_the_known_ones() {
        let error = ToolFilter::parse(&["@everything"], REGISTRY).unwrap_err();

        let error = error.to_string();
        let expected =
            "unknown tool group `@everything`; known groups are `@files`, `@shell`, `@org`";
        assert!(error.starts_with(expected), "{error}");
        let slip = ToolFilter::parse(&["!@flies"], REGISTRY).unwrap_err().to_string();
        assert_eq!(slip, "unknown tool group `@flies` (did you mean `@files`?)");
    }
}
