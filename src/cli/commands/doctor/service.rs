//! Service check: whether it runs, and whether it could.

use std::net::{SocketAddr, TcpListener};

use crate::{
    api::{
        doctor::{EXAMINE, Examination, Finding},
        teams::{LIST_TEAMS, TeamFilter, TeamRow},
    },
    cli::{
        client::Service,
        context::Context,
        failure::{Exit, Failure},
        notice::{foreign, is_foreign, notice},
    },
    settings::{config::Config, error::StartError},
};

const ID: &str = "service";

/// What is known of the service of this home.
pub(super) enum Running {
    /// Nobody has the run dir.
    No,
    Ready {
        url: String,
    },
    /// It answers that it is not ready.
    NotReady {
        url: String,
    },
    /// The run dir is of another user.
    Foreign(Failure),
    /// Somebody has the run dir, and does not answer.
    Silent {
        pid: Option<u32>,
        failure: Failure,
    },
}

/// Finds out, without disturbing anyone.
pub(super) async fn find(context: &Context) -> Running {
    let pid = match (&context.url, context.home.lock()) {
        (None, Ok(_)) => return Running::No,
        (None, Err(StartError::Running { pid, .. })) => pid,
        (None, Err(StartError::Unusable { source, .. })) if is_foreign(&source) => {
            return Running::Foreign(foreign(&context.home));
        }
        // The run dir is not there: others say so.
        (None, Err(_)) => return Running::No,
        (Some(_), _) => notice(&context.home).ok().flatten().map(|notice| notice.pid),
    };
    let service = match Service::find(context) {
        Ok(service) => service,
        Err(failure) => return Running::Silent { pid, failure },
    };
    let url = service.url().to_string();
    match service.readiness().await {
        Ok((true, _)) => Running::Ready { url },
        Ok((false, _)) => Running::NotReady { url },
        Err(failure) => Running::Silent { pid, failure },
    }
}

pub(super) fn check(running: &Running, config: Option<&Config>) -> Vec<Finding> {
    vec![match running {
        Running::Ready { url } => Finding::ok(ID, format!("runs and is ready at {url}")),
        Running::NotReady { url } => Finding::error(
            ID,
            format!("runs at {url} and is not ready"),
            "see its log for what it waits for",
        ),
        Running::Silent { pid, failure } if failure.exit == Exit::NotAllowed => Finding::warn(
            ID,
            format!("runs{} and was not asked: {failure}", process(*pid)),
            "name the token with `--token-file`",
        ),
        Running::Foreign(failure) => {
            Finding::error(ID, failure.message.clone(), "run the doctor as the user of the service")
        }
        Running::Silent { pid, failure } => Finding::error(
            ID,
            format!("does not answer{}: {failure}", process(*pid)),
            "see its log; stop it if it hangs",
        ),
        Running::No => match config {
            Some(config) => port(SocketAddr::new(config.server.bind, config.server.port)),
            None => Finding::ok(ID, "is not running"),
        },
    }]
}

/// Teams without a file. What is wrong in those that are there is told with the settings.
pub(super) async fn teams(running: &Running, context: &Context) -> Vec<Finding> {
    let Running::Ready { .. } = running else { return Vec::new() };
    let listed = async {
        let service = Service::find(context)?;
        service.all(&LIST_TEAMS, &TeamFilter::default()).await?.data()
    };
    // Who may not list them hears of that where they ask for them.
    let rows = listed.await.unwrap_or_default();
    let finding = |row: TeamRow| {
        let (name, fault) = (row.name.to_string(), row.fault?);
        let is_told = context.url.is_none() && context.home.team_file(&name).exists();
        let message = format!("team `{name}` cannot work: {fault}");
        let shutdown = context.command(&format!("teams shutdown {name}"));
        let fix = format!("bring its folder back, such as from a backup; or {shutdown}");
        (!is_told).then(|| Finding::error(ID, message, fix))
    };
    rows.into_iter().filter_map(finding).collect()
}

fn process(pid: Option<u32>) -> String {
    pid.map_or(String::new(), |pid| format!(" as process {pid}"))
}

fn port(address: SocketAddr) -> Finding {
    match TcpListener::bind(address) {
        Ok(_) => Finding::ok(ID, format!("is not running; {address} is free for it")),
        Err(error) => Finding::error(
            ID,
            format!("is not running, and cannot listen on {address}: {error}"),
            "free the port, or choose another with `server.port` or `serve --port`",
        ),
    }
}

/// What the running service finds at one place when it looks closely.
pub(super) async fn examined(
    id: &str,
    wanted: Examination,
    context: &Context,
) -> Result<Vec<Finding>, Failure> {
    let mut found = Service::find(context)?.give_long(&EXAMINE, &wanted).await?.data()?.checks;
    found.retain(|finding| finding.id == id);
    Ok(found)
}

#[cfg(test)]
mod tests {

    use super::*;

    /// OP-76
    #[test]
    fn a_port_that_is_taken_is_an_error() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let config = Config {
            server: crate::settings::config::Server { port: address.port(), ..Default::default() },
            ..Config::default()
        };

        let busy = check(&Running::No, Some(&config));
        drop(taken);
        let free = check(&Running::No, Some(&config));

        let expected = Finding::error(
            ID,
            format!(
                "is not running, and cannot listen on {address}: Address already in use (os error 98)"
            ),
            "free the port, or choose another with `server.port` or `serve --port`",
        );
        assert_eq!(busy, [expected]);
        assert_eq!(free, [Finding::ok(ID, format!("is not running; {address} is free for it"))]);
    }
}
