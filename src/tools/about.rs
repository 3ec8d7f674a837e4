//! What a tool says of all its calls.

use std::time::Duration;

use hivewright_actors::tool::Effect;

use crate::settings::tool_groups::ToolGroup;

/// Unless a tool says otherwise, its calls take no longer.
const USUAL: Duration = Duration::from_secs(30);

/// Which calls of a team share places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Everyday ones.
    Daily,
    /// Those that change what teams, triggers and trusted senders there are.
    Structural,
    /// Those that are bounded otherwise.
    Unbounded,
}

/// Which teams a tool can be given to, whatever their files say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenTo {
    All,
    Main,
    BelowMain,
}

/// What a tool says of all its calls.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The key it is configured and called by.
    pub name: &'static str,
    /// A pattern of the keys that it has, where many tools are made of it.
    pub keys: &'static str,
    /// What settings name it with, and where among all a model is told of it.
    pub group: ToolGroup,
    pub given_to: GivenTo,
    /// What kind of thing it does, for the operator's rules.
    pub class: &'static str,
    /// The class of some of its calls, by their arguments.
    pub other_class: Option<&'static str>,
    /// It gives another team work, or learns something from it.
    pub speaks_to_teams: bool,
    /// What running it again after a crash would do.
    pub effect: Effect,
    pub pool: Pool,
    /// Never beside another call of the same step.
    pub exclusive: bool,
    /// How long a call may take unless it asks for another time.
    pub timeout: Duration,
    /// The most a call can ask for.
    pub longest: Duration,
    /// A call may take as long as its turn: nothing else ends it.
    pub whole_turn: bool,
    /// Arguments in which references to the vault are expanded, as the last act before the call.
    pub expands: &'static [&'static str],
    /// Arguments that are paths: a reference to the vault in one is a mistake.
    pub paths: &'static [&'static str],
    /// A call whose arguments hold the value of a secret is refused.
    pub refuses_secrets: bool,
    /// What a call would do is tried before anybody is asked about it.
    pub tried_first: bool,
}

impl About {
    pub const fn new(name: &'static str, group: &str, class: &'static str, effect: Effect) -> Self {
        Self {
            name,
            keys: name,
            group: ToolGroup::named(group),
            given_to: GivenTo::All,
            class,
            other_class: None,
            speaks_to_teams: false,
            effect,
            pool: Pool::Daily,
            exclusive: false,
            timeout: USUAL,
            longest: USUAL,
            whole_turn: false,
            expands: &[],
            paths: &[],
            refuses_secrets: false,
            tried_first: false,
        }
    }

    pub(super) const fn keys(self, keys: &'static str) -> Self {
        Self { keys, ..self }
    }

    /// No team but the main one can have it.
    pub(super) const fn for_main(self) -> Self {
        Self { given_to: GivenTo::Main, ..self }
    }

    /// It is of no use to the main team: models are not told of what can only be refused.
    pub(super) const fn for_teams_below(self) -> Self {
        Self { given_to: GivenTo::BelowMain, ..self }
    }

    pub(super) const fn speaks_to_teams(self) -> Self {
        Self { speaks_to_teams: true, ..self }
    }

    pub(super) const fn other_class(self, class: &'static str) -> Self {
        Self { other_class: Some(class), ..self }
    }

    pub const fn exclusive(self) -> Self {
        Self { exclusive: true, ..self }
    }

    /// It changes what teams, triggers or trusted senders there are.
    pub(super) const fn structural(self) -> Self {
        Self { pool: Pool::Structural, exclusive: true, ..self }
    }

    pub(super) const fn tried_first(self) -> Self {
        Self { tried_first: true, ..self }
    }

    pub(super) const fn unbounded(self) -> Self {
        Self { pool: Pool::Unbounded, ..self }
    }

    /// A call takes so long, or so long at most if it asks for that.
    pub const fn within(self, timeout: Duration, longest: Duration) -> Self {
        Self { timeout, longest, ..self }
    }

    pub(super) const fn whole_turn(self) -> Self {
        Self { whole_turn: true, ..self }
    }

    pub(super) const fn expands(self, expands: &'static [&'static str]) -> Self {
        Self { expands, ..self }
    }

    pub(super) const fn paths(self, paths: &'static [&'static str]) -> Self {
        Self { paths, ..self }
    }

    pub(super) const fn refuses_secrets(self) -> Self {
        Self { refuses_secrets: true, ..self }
    }
}
