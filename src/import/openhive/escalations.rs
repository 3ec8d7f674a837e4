//! Escalations: problems that teams handed up. Those without an answer become notices.

use hivewright_actors::{
    notice::{Notice, NoticeKind},
    store::records::Writes,
};

use super::{
    moment::moment,
    plan::{Artifact, Planner},
    report::{Item, Kind},
    schema::row,
};

pub(super) const KIND: Kind = Kind::listed("escalation");

row! {
    /// A problem that a team handed up.
    EscalationRow in "escalation_correlations" by "created_at, correlation_id" known by id {
        id: String as "correlation_id",
        from: String as "source_team",
        to: String as "target_team",
        task: Option<String> as "task_id",
        status: String,
        created_at: String,
    }
}

pub(super) fn plan(planner: &mut Planner<'_>) {
    let rows = planner.found.tables.of::<EscalationRow>();
    let (open, over): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.status == "pending");
    for row in open {
        let change = "becomes a notice in the operator's inbox".to_owned();
        let notice = notice(row, planner);
        let made = Artifact::row(&notice.id, Writes::new().put(&notice));
        let conversion = Ok((made, vec![change]));
        planner.take(KIND, Some(&row.from), &row.id, row.mark(), conversion);
    }
    if !over.is_empty() {
        let item = Item::left(KIND, "(all)", "they are answered");
        planner.report(item.times(over.len() as u64));
    }
}

fn notice(row: &EscalationRow, planner: &Planner<'_>) -> Notice {
    let (from, to) = (planner.called(&row.from), planner.called(&row.to));
    let text = format!(
        "In OpenHive `{from}` escalated something to `{to}` that was never answered \
         (`{}`). Its text was not kept there; ask the team what it was about.",
        row.id
    );
    let refs = row.task.iter().cloned().collect();
    let at = moment(&row.created_at).unwrap_or(planner.target.now);
    let team = from.as_str().into();
    Notice::of_team(planner.ids, NoticeKind::Escalation, &team, text, refs, at)
}
