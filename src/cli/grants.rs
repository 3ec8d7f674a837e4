//! `hivewright approvals grants` and `revoke`: what was decided on in advance.

use serde::Deserialize;
use serde_json::Value;

use super::{
    Context,
    approvals::safe,
    ask::confirm,
    failure::{Exit, Failure},
    service::{Service, data, given},
    table::{moment, table},
};

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    team: String,
    tool: String,
    arguments: Value,
    granted_by: String,
    expires_at: Option<String>,
    uses_left: Option<u32>,
}

pub(super) async fn list(
    service: &Service,
    context: &Context,
    team: Option<String>,
) -> Result<(), Failure> {
    let answer = service.search("/api/v1/grants", given([("team", team)])).await?;
    if context.screen.json {
        return context.screen.document(&answer);
    }
    context.screen.write(&listed(&answer)?);
    Ok(())
}

pub(super) async fn revoke(service: &Service, context: &Context, id: &str) -> Result<(), Failure> {
    let mut grants = service.search("/api/v1/grants", [("limit", "200".to_owned())]).await?;
    let rows = grants["data"].as_array_mut().map(std::mem::take);
    let found = rows.into_iter().flatten().find(|row| row["id"].as_str() == Some(id));
    let Some(found) = found else {
        let message = format!("there is no grant `{id}`; see `hivewright approvals grants`");
        return Err(Failure::new(Exit::NotFound, message));
    };
    let answer = serde_json::json!({ "data": [found] });
    confirm(context, &listed(&answer)?, "Take this back?")?;
    service.delete(&format!("/api/v1/grants/{}", safe(id)?), []).await?;
    if context.screen.json {
        return context.screen.document(&answer);
    }
    context.screen.remark("The next such call asks again.");
    Ok(())
}

fn listed(answer: &Value) -> Result<String, Failure> {
    let rows: Vec<Row> = data(answer)?;
    let rows = rows.into_iter().map(|row| {
        let left = row.uses_left.map_or("any".to_owned(), |left| left.to_string());
        [
            row.id,
            row.team,
            row.tool,
            left,
            row.expires_at.as_deref().map(moment).unwrap_or_default(),
            row.granted_by,
            row.arguments.to_string(),
        ]
    });
    Ok(table(["ID", "TEAM", "TOOL", "LEFT", "UNTIL", "BY", "ARGUMENTS"], rows))
}

#[cfg(test)]
mod tests {

    use super::*;

    /// OP-79, PL-83
    #[test]
    fn grants_are_listed_with_what_is_left_of_them() {
        let grant = serde_json::json!({
            "id": "grant-1", "team": "main", "tool": "bash", "arguments": {"command": "make"},
            "granted_by": "operator", "expires_at": "2026-11-15T23:46:40.000Z", "uses_left": 3,
        });
        let mut always = grant.clone();
        always["uses_left"] = Value::Null;
        always["expires_at"] = Value::Null;

        let list = listed(&serde_json::json!({ "data": [grant, always] })).unwrap();

        assert_eq!(
            list,
            "ID       TEAM  TOOL  LEFT  UNTIL                 BY        ARGUMENTS\n\
             grant-1  main  bash  3     2026-11-15 23:46 UTC  operator  {\"command\":\"make\"}\n\
             grant-1  main  bash  any                         operator  {\"command\":\"make\"}\n"
        );
    }
}
