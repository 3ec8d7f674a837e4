//! What belongs to channels: topics, what was said, who is trusted. And what belongs nowhere else.

use super::{
    super::{
        found::Found,
        report::{Item, Kind},
        rows::LogRow,
        schema::Extra,
        target::{Target, mark},
        topics, trust,
    },
    BEFORE, Marked, Options, Plan,
    teams::Cast,
};

/// How many of the like there are, in the order in which they came.
#[derive(Debug, Default)]
struct Tally(Vec<(Item, u64)>);

impl Tally {
    fn add(&mut self, item: Item) {
        match self.0.iter_mut().find(|(known, _)| *known == item) {
            Some((_, count)) => *count += 1,
            None => self.0.push((item, 1)),
        }
    }

    fn items(self) -> impl Iterator<Item = Item> {
        self.0.into_iter().map(|(item, count)| item.times(count))
    }
}

impl Plan {
    pub(super) fn channels(&mut self, found: &Found, target: &Target, cast: &Cast) {
        self.topics(found, target);
        self.sayings(found, target, cast);
        self.trust(found, target);
        self.escalations(found, target);
    }

    fn topics(&mut self, found: &Found, target: &Target) {
        let rows = &found.tables.topics;
        let threads = topics::convert(rows, target.idle_after, target.now);
        for ((id, thread), row) in threads.into_iter().zip(rows) {
            let mark = mark("topics", &id, &row.created_at);
            let name = format!("{} ({id})", row.name);
            let item = match thread {
                _ if target.has(&mark) => Item::left(Kind::Topic, name, BEFORE),
                Ok(thing) => {
                    let item = Item::taken(Kind::Topic, name, &thing.changes);
                    self.topics.push(Marked { mark, thing });
                    item
                }
                Err(reason) => Item::faulty(Kind::Topic, name, reason),
            };
            self.report.push(item);
        }
    }

    fn sayings(&mut self, found: &Found, target: &Target, cast: &Cast) {
        let mut tally = Tally::default();
        for row in &found.tables.interactions {
            let mark = mark("channel_interactions", row.id, &row.created_at);
            let channel = &row.channel;
            tally.add(match topics::saying(row, target.now) {
                _ if target.has(&mark) => Item::left(Kind::Interactions, channel, BEFORE),
                Ok(mut thing) => {
                    let mut changes = Vec::new();
                    cast.redactor.clean(&mut thing.text, &mut changes);
                    // A topic in which something was just said would be active.
                    thing.at = thing.at.min(target.now - target.idle_after);
                    let kind = Kind::Interactions;
                    let channel = thing.channel.clone();
                    self.sayings.push(Marked { mark, thing });
                    Item::taken(kind, channel, &changes)
                }
                Err(reason) => Item::left(Kind::Interactions, channel, reason),
            });
        }
        self.report.items.extend(tally.items());
    }

    fn trust(&mut self, found: &Found, target: &Target) {
        for row in &found.tables.grants {
            let mark = mark("sender_trust", row.id, &row.created_at);
            let place = row.channel.as_deref().unwrap_or("all channels");
            let name = format!("{} {}, {place}", row.channel_type, row.sender);
            let item = match trust::grant(row) {
                _ if target.has(&mark) => Item::left(Kind::Trust, name, BEFORE),
                Ok(thing) => {
                    let item = Item::taken(Kind::Trust, name, &thing.changes);
                    self.grants.push(Marked { mark, thing });
                    item
                }
                Err(reason) => Item::faulty(Kind::Trust, name, reason),
            };
            self.report.push(item);
        }
        let mut tally = Tally::default();
        for row in &found.tables.audit {
            let mark = mark("trust_audit_log", row.id, &row.created_at);
            tally.add(match trust::decision(row) {
                _ if target.has(&mark) => Item::left(Kind::Audit, &row.channel, BEFORE),
                Ok(thing) => {
                    self.decisions.push(Marked { mark, thing });
                    Item::taken(Kind::Audit, &row.channel, &[])
                }
                Err(reason) => Item::faulty(Kind::Audit, &row.channel, reason),
            });
        }
        self.report.items.extend(tally.items());
    }

    fn escalations(&mut self, found: &Found, target: &Target) {
        let mut over = 0;
        for row in &found.tables.escalations {
            let mark = mark("escalation_correlations", &row.id, &row.created_at);
            if row.status != "pending" {
                over += 1;
                continue;
            }
            let item = if target.has(&mark) {
                Item::left(Kind::Escalation, &row.id, BEFORE)
            } else {
                let change = "becomes a notice in the operator's inbox".to_owned();
                let thing = row.clone();
                self.escalations.push(Marked { mark, thing });
                Item::taken(Kind::Escalation, &row.id, &[change])
            };
            self.report.push(item.of(&row.from));
        }
        if over > 0 {
            let item = Item::left(Kind::Escalation, "(all)", "they are answered");
            self.report.push(item.times(over));
        }
    }

    /// What is not imported, and the log.
    pub(super) fn rest(&mut self, found: &Found, target: &Target, options: Options, cast: &Cast) {
        let tables = &found.tables;
        if let Some(rows) = &tables.logs
            && let Some(last) = rows.last()
        {
            let mark = mark("log_entries", last.id, &last.created_at);
            let item = if target.has(&mark) {
                Item::left(Kind::Log, "log_entries", BEFORE)
            } else {
                let thing = rows.iter().map(|row| cleaned(row, cast)).collect();
                self.logs = Some(Marked { mark, thing });
                let change = "written to a file beside the report".to_owned();
                Item::taken(Kind::Log, "log_entries", &[change])
            };
            self.report.push(item.times(rows.len() as u64));
        } else if tables.log_count > 0 && !options.with_logs {
            let item = Item::left(Kind::Log, "log_entries", "taken with `--with-logs`");
            self.report.push(item.times(tables.log_count));
        }
        for (table, rows) in &tables.derived {
            let reason = "it follows from the rest, and is made anew";
            let item = Item::left(Kind::Table, *table, reason);
            self.report.push(item.times(*rows));
        }
        for Extra { table, column } in &found.extras {
            let name = match column {
                Some(column) => format!("{table}.{column}"),
                None => table.clone(),
            };
            let reason = "nobody here knows what it means";
            self.report.push(Item::left(Kind::Table, name, reason));
        }
    }
}

/// A line of the log without secrets.
fn cleaned(row: &LogRow, cast: &Cast) -> LogRow {
    let mut row = row.clone();
    let mut changes = Vec::new();
    cast.redactor.clean(&mut row.message, &mut changes);
    if let Some(context) = &mut row.context {
        cast.redactor.clean(context, &mut changes);
    }
    row
}
