//! `hivewright approvals grants` and `revoke`: what was decided on in advance.

use super::{
    Context,
    ask::confirm,
    failure::{Exit, Failure},
    service::{Answer, Service},
    table::{self, columns, date},
};
use crate::api::{
    endpoint::{ById, Empty},
    flags::Limit,
    grants::{GrantFilter, GrantRow, LIST_GRANTS, REVOKE_GRANT},
};

pub(super) async fn list(
    service: &Service,
    context: &Context,
    filter: &GrantFilter,
) -> Result<(), Failure> {
    let grants = service.call(&LIST_GRANTS, &Empty {}, filter, &Empty {}).await?;
    context.screen.rows(&grants)
}

pub(super) async fn revoke(service: &Service, context: &Context, id: &str) -> Result<(), Failure> {
    let (all, most) = (GrantFilter::default(), Limit { limit: 200 });
    let mut grants = service.rows(&LIST_GRANTS, &all, &most).await?.document;
    let rows = grants["data"].as_array_mut().map(std::mem::take);
    let found = rows.into_iter().flatten().find(|row| row["id"].as_str() == Some(id));
    let Some(found) = found else {
        let message = format!("there is no grant `{id}`; see `hivewright approvals grants`");
        return Err(Failure::new(Exit::NotFound, message));
    };
    let answer: Answer<Vec<GrantRow>> = Answer::new(serde_json::json!({ "data": [found] }));
    confirm(context, &table::rows(&answer.data()?), "Take this back?")?;
    service.at(&REVOKE_GRANT, &ById { id: id.to_owned() }).await?;
    context.screen.done(&answer, "The next such call asks again.")
}

columns!(GrantRow {
    "ID" => |row| row.id.clone(),
    "TEAM" => |row| row.covers.team.clone(),
    "TOOL" => |row| row.covers.tool.clone(),
    "LEFT" => |row| row.uses_left.map_or("any".to_owned(), |left| left.to_string()),
    "UNTIL" => |row| date(&row.expires_at),
    "BY" => |row| row.granted_by.clone(),
    "ARGUMENTS" => |row| row.covers.arguments.to_string(),
});

#[cfg(test)]
mod tests {

    use serde_json::{Value, json};

    use super::*;

    /// OP-79, PL-83
    #[test]
    fn grants_are_listed_with_what_is_left_of_them() {
        let grant = json!({
            "id": "grant-1", "team": "main", "tool": "bash", "arguments": {"command": "make"},
            "granted_by": "operator", "expires_at": "2026-11-15T23:46:40.000Z", "uses_left": 3,
            "generation": 1, "cwd": null, "secrets": [], "untrusted": false, "approval": "apr-1",
            "created_at": null,
        });
        let mut always = grant.clone();
        always["uses_left"] = Value::Null;
        always["expires_at"] = Value::Null;

        let rows: Vec<GrantRow> = serde_json::from_value(json!([grant, always])).unwrap();

        assert_eq!(
            table::rows(&rows),
            "ID       TEAM  TOOL  LEFT  UNTIL                 BY        ARGUMENTS\n\
             grant-1  main  bash  3     2026-11-15 23:46 UTC  operator  {\"command\":\"make\"}\n\
             grant-1  main  bash  any                         operator  {\"command\":\"make\"}\n"
        );
    }
}
