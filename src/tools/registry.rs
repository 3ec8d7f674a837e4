//! Registry of tools: which there are, by what each says of itself. Nothing else lists their names.

use super::about::About;
use crate::settings::tool_groups::ToolGroup;

/// What all tools say of themselves, list by list. The default knows none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registry {
    built_in: &'static [About],
    others: &'static [&'static [About]],
}

impl Registry {
    /// `built_in`: those that every service has, whatever it is made of.
    pub const fn new(built_in: &'static [About], others: &'static [&'static [About]]) -> Self {
        Self { built_in, others }
    }

    pub fn abouts(self) -> impl Iterator<Item = &'static About> {
        self.built_in.iter().chain(self.others.iter().copied().flatten())
    }

    /// The keys that settings can name, and patterns of keys where many tools are made of one.
    pub fn keys(self) -> impl Iterator<Item = &'static str> {
        self.abouts().map(|about| about.keys)
    }

    /// The same for the tools of one group.
    pub fn members(self, group: ToolGroup) -> impl Iterator<Item = &'static str> {
        self.abouts().filter(move |about| about.group == group).map(|about| about.keys)
    }

    /// In the order in which prompts show them.
    pub fn built_in(self) -> impl Iterator<Item = &'static str> {
        self.built_in.iter().map(|about| about.name)
    }
}
