//! Kinds of things that an import takes, in the order in which they are planned and made.
//!
//! A kind is a file, which has its name in the report, the rows that are read for it, and what becomes of them here, and
//! a line below.

use super::{
    escalations::{self, EscalationRow},
    file_draft, files,
    installation::{Reader, Tables},
    interactions::{self, InteractionRow},
    log::{self, LogRow},
    memories::{self, MemoryRow},
    plan::{self, Planned, Planner, Team},
    plugins::{self, PluginRow},
    report::Kind,
    rules,
    schema::TeamRecord,
    settings,
    tasks::{self, TaskRow},
    team_tree::{KeywordRow, OrgRow},
    teams,
    topics::{self, TopicRow},
    triggers::{self, TriggerRow},
    trust::{self, AuditRow, GrantRow},
    vault::{self, VaultRow},
};

/// A kind of things that are imported, and how.
struct ImportKind {
    kind: Kind,
    step: Step,
    tables: &'static [Reader],
    /// The teams of all rows; none where rows are of no team.
    owners: Option<Owners>,
}

/// How things of a kind are planned.
enum Step {
    /// All at once.
    Once(fn(&mut Planner<'_>)),
    /// Those of one team that is taken after the other.
    OfTeam(fn(&mut Planner<'_>, &Team<'_>)),
    /// Along with those of another kind.
    Along,
}

type Owners = fn(&Tables) -> Vec<&str>;

fn owners<R: TeamRecord>(tables: &Tables) -> Vec<&str> {
    tables.of::<R>().iter().map(R::team).collect()
}

/// `kind, step, [rows that are read] of rows that teams have;`
macro_rules! kinds {
    ($($kind:expr, $step:expr, [$($row:ty),*] $(of $owned:ty)?;)*) => {
        const KINDS: &[ImportKind] = &[$(ImportKind {
            kind: $kind,
            step: $step,
            tables: &[$(Reader::of::<$row>()),*],
            owners: [$(Some(owners::<$owned> as Owners),)? None][0],
        }),*];
    };
}

kinds! {
    file_draft::SETTINGS, Step::Once(settings::plan), [];
    rules::KIND, Step::Once(rules::plan), [];
    teams::KIND, Step::Once(teams::plan), [OrgRow, KeywordRow];
    files::KIND, Step::Along, [];
    vault::KIND, Step::Along, [VaultRow] of VaultRow;
    memories::KIND, Step::OfTeam(memories::plan), [MemoryRow] of MemoryRow;
    triggers::KIND, Step::OfTeam(triggers::plan), [TriggerRow] of TriggerRow;
    tasks::KIND, Step::OfTeam(tasks::plan), [TaskRow] of TaskRow;
    plugins::KIND, Step::OfTeam(plugins::plan), [PluginRow] of PluginRow;
    topics::KIND, Step::Once(topics::plan), [TopicRow];
    interactions::KIND, Step::Once(interactions::plan), [InteractionRow];
    trust::KIND, Step::Once(trust::plan), [GrantRow];
    trust::AUDIT, Step::Along, [AuditRow];
    escalations::KIND, Step::Once(escalations::plan), [EscalationRow];
    log::KIND, Step::Once(log::plan), [LogRow];
    plan::TABLE, Step::Once(|planner| planner.leftovers()), [];
}

/// What reads the tables of all kinds.
pub(super) fn readers() -> Vec<&'static Reader> {
    KINDS.iter().flat_map(|row| row.tables).collect()
}

/// Plans all that is there, a kind after the other; what teams have, a team after the other.
pub(super) fn plan_all(planner: &mut Planner<'_>) {
    for rows in KINDS.chunk_by(|one, next| one.owners.is_some() == next.owners.is_some()) {
        for row in rows {
            if let Step::Once(plan) = row.step {
                plan(planner);
            }
        }
        for team in planner.teams.clone().values() {
            for row in rows {
                if let Step::OfTeam(plan) = row.step {
                    plan(planner, team);
                }
            }
        }
        for row in rows {
            if let Some(owners) = row.owners {
                planner.strays(row.kind, owners(&planner.found.tables).into_iter());
            }
        }
    }
}

/// When a thing is made: secrets of settings files come first, since no file refers to one that is not there, then
/// teams before what is theirs.
pub(super) fn order(planned: &Planned) -> (bool, usize) {
    let place = KINDS.iter().position(|row| row.kind == planned.kind);
    (!planned.is_of_settings(), place.unwrap_or(KINDS.len()))
}
