//! What teams remember, what starts them, what they have to do, and the tools they wrote.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    super::{
        found::{Folder, Found},
        memories, plugins,
        report::{Item, Kind},
        rows::{MemoryRow, TriggerRow},
        target::{Target, mark},
        tasks, triggers,
    },
    BEFORE, Checks, Marked, Plan,
    teams::Cast,
};

/// The most triggers of a team.
const MOST_TRIGGERS: usize = 50;

impl Plan {
    pub(super) fn belongings(
        &mut self,
        found: &Found,
        target: &Target,
        cast: &Cast,
        checks: &dyn Checks,
    ) {
        let tables = &found.tables;
        let mut strays = Strays::default();
        for row in &tables.memories {
            strays.note(cast, Kind::Memory, &row.team);
        }
        for row in &tables.triggers {
            strays.note(cast, Kind::Trigger, &row.team);
        }
        for row in &tables.tasks {
            strays.note(cast, Kind::Task, &row.team);
        }
        for row in &tables.plugins {
            strays.note(cast, Kind::Plugin, &row.team);
        }
        for row in &tables.vault {
            strays.note(cast, Kind::Vault, &row.team);
        }
        for (former, at) in &cast.plans {
            let folder = found.folders.get(former);
            let needing = needing(found, former, folder);
            self.memories(*at, former, found, target, cast);
            self.triggers(*at, former, found, target, cast, &needing, checks);
            self.tasks(*at, former, found, target, cast);
            self.plugins(*at, former, found, target, &needing);
        }
        self.report.items.extend(strays.items(cast));
    }

    fn memories(&mut self, at: usize, former: &str, found: &Found, target: &Target, cast: &Cast) {
        let rows: Vec<&MemoryRow> =
            found.tables.memories.iter().filter(|row| row.team == former).collect();
        let journals = std::mem::take(&mut self.teams[at].memories);
        let entries = memories::convert(&rows).into_iter().zip(&rows).map(|(thing, row)| {
            let mark = mark("memories", row.id, &row.created_at);
            Marked { mark, thing }
        });
        let entries: Vec<_> = entries.chain(journals).collect();
        // A key that an earlier import brought has a life of its own by now.
        let lived: BTreeSet<String> = entries
            .iter()
            .filter(|entry| target.has(&entry.mark))
            .map(|entry| entry.thing.key.clone())
            .collect();
        for mut entry in entries {
            let memory = &mut entry.thing;
            cast.redactor.clean(&mut memory.content, &mut memory.changes);
            if let Some(reason) = &mut memory.reason {
                cast.redactor.clean(reason, &mut memory.changes);
            }
            let item = if target.has(&entry.mark) {
                Item::left(Kind::Memory, &memory.key, BEFORE)
            } else if lived.contains(&memory.key) {
                let reason = "an earlier version was imported before, and is kept as it is now";
                Item::left(Kind::Memory, &memory.key, reason)
            } else {
                let item = Item::taken(Kind::Memory, &memory.key, &memory.changes);
                self.teams[at].memories.push(entry);
                item
            };
            self.report.push(item.of(former));
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one call, and a struct would only repeat it")]
    fn triggers(
        &mut self,
        at: usize,
        former: &str,
        found: &Found,
        target: &Target,
        cast: &Cast,
        needing: &BTreeMap<String, Vec<String>>,
        checks: &dyn Checks,
    ) {
        let folder = found.folders.get(former);
        let mut taken = BTreeSet::new();
        for row in found.tables.triggers.iter().filter(|row| row.team == former) {
            let mark = mark("trigger_configs", row.id, &row.created_at);
            let item = match triggers::convert(row, &taken) {
                _ if triggers::is_cycle(&row.name) => {
                    let reason = "`learning: true` in the team's file does this here";
                    Item::left(Kind::Trigger, &row.name, reason)
                }
                Ok(_) if taken.len() >= MOST_TRIGGERS && !target.has(&mark) => {
                    let reason = format!("a team has at most {MOST_TRIGGERS} triggers");
                    Item::faulty(Kind::Trigger, &row.name, reason)
                }
                Err(_) if target.has(&mark) => Item::left(Kind::Trigger, &row.name, BEFORE),
                Err(reason) => Item::faulty(Kind::Trigger, &row.name, reason),
                Ok(thing) if target.has(&mark) => {
                    taken.insert(thing.name);
                    Item::left(Kind::Trigger, &row.name, BEFORE)
                }
                Ok(mut thing) => {
                    cast.redactor.clean(&mut thing.task, &mut thing.changes);
                    check_trigger(&mut thing, row, folder, needing, checks);
                    taken.insert(thing.name.clone());
                    let item = Item::taken(Kind::Trigger, &row.name, &thing.changes);
                    self.teams[at].triggers.push(Marked { mark, thing });
                    item
                }
            };
            self.report.push(item.of(former));
        }
    }

    fn tasks(&mut self, at: usize, former: &str, found: &Found, target: &Target, cast: &Cast) {
        for row in found.tables.tasks.iter().filter(|row| row.team == former) {
            let mark = mark("task_queue", &row.id, &row.created_at);
            let item = match tasks::convert(row) {
                _ if target.has(&mark) => Item::left(Kind::Task, &row.id, BEFORE),
                Ok(mut thing) => {
                    cast.redactor.clean(&mut thing.body, &mut thing.changes);
                    if let tasks::State::Ended { result, .. } = &mut thing.state {
                        cast.redactor.clean(result, &mut thing.changes);
                    }
                    let item = Item::taken(Kind::Task, &row.id, &thing.changes);
                    self.teams[at].tasks.push(Marked { mark, thing });
                    item
                }
                Err(reason) => Item::faulty(Kind::Task, &row.id, reason),
            };
            self.report.push(item.of(former));
        }
    }

    fn plugins(
        &mut self,
        at: usize,
        former: &str,
        found: &Found,
        target: &Target,
        needing: &BTreeMap<String, Vec<String>>,
    ) {
        let sources = found.folders.get(former).map(|folder| folder.plugins.clone());
        let sources = sources.unwrap_or_default();
        for row in found.tables.plugins.iter().filter(|row| row.team == former) {
            let mark = mark("plugin_tools", format!("{former}/{}", row.tool), &row.created_at);
            let item = if target.has(&mark) {
                Item::left(Kind::Plugin, &row.tool, BEFORE)
            } else if row.status == "removed" {
                Item::left(Kind::Plugin, &row.tool, "it was removed")
            } else {
                let thing = plugins::convert(row, &sources, target.now);
                let mut changes = vec![plugins::REASON.to_owned()];
                if thing.source.is_none() {
                    changes.push("its source is missing".into());
                }
                let skills: Vec<_> = needing
                    .iter()
                    .filter(|(_, tools)| tools.contains(&row.tool))
                    .map(|(skill, _)| format!("`{skill}`"))
                    .collect();
                if !skills.is_empty() {
                    changes.push(format!("skills that need it: {}", skills.join(", ")));
                }
                self.teams[at].plugins.push(Marked { mark, thing });
                Item::taken(Kind::Plugin, &row.tool, &changes)
            };
            self.report.push(item.of(former));
        }
    }
}

/// The skills of a team that need tools which must be registered anew.
fn needing(found: &Found, former: &str, folder: Option<&Folder>) -> BTreeMap<String, Vec<String>> {
    let Some(folder) = folder else {
        return BTreeMap::new();
    };
    let rows = found.tables.plugins.iter().filter(|row| row.team == former);
    let files = folder.plugins.iter().filter_map(|name| name.strip_suffix(".ts"));
    let tools = rows.map(|row| row.tool.clone()).chain(files.map(str::to_owned));
    plugins::dependents(&folder.skills, &tools.collect())
}

fn check_trigger(
    trigger: &mut triggers::Trigger,
    row: &TriggerRow,
    folder: Option<&Folder>,
    needing: &BTreeMap<String, Vec<String>>,
    checks: &dyn Checks,
) {
    let subagents = folder.map(|folder| &folder.subagents);
    let listed = match &trigger.subagent {
        Some(name) => match subagents.and_then(|subagents| subagents.get(name)) {
            Some(skills) => skills.clone(),
            None => return trigger.disable(format!("the team has no subagent `{name}`")),
        },
        None => row.skill.iter().cloned().collect(),
    };
    let tools: BTreeSet<&String> =
        listed.iter().filter_map(|skill| needing.get(skill)).flatten().collect();
    if !tools.is_empty() {
        let tools: Vec<_> = tools.iter().map(|tool| format!("`{tool}`")).collect();
        let tools = tools.join(", ");
        let change = format!("it needs {tools}, which must be registered anew");
        trigger.changes.push(change);
    }
    if let Err(reason) = checks.trigger(trigger) {
        trigger.disable(reason);
    }
}

/// Rows of teams that are not taken, counted.
#[derive(Debug, Default)]
struct Strays(BTreeMap<(Kind, String), u64>);

impl Strays {
    fn note(&mut self, cast: &Cast, kind: Kind, team: &str) {
        if !cast.plans.contains_key(team) {
            *self.0.entry((kind, team.to_owned())).or_default() += 1;
        }
    }

    fn items(self, cast: &Cast) -> impl Iterator<Item = Item> {
        self.0.into_iter().map(|((kind, team), count)| {
            let reason = if cast.left.contains(&team) {
                "their team stays behind"
            } else {
                "there is no such team"
            };
            Item::left(kind, "(all)", reason).of(team).times(count)
        })
    }
}
