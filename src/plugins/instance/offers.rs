//! Offers: the tools that the plugins of a team bring to a turn.

use std::sync::Arc;

use futures_util::future::join_all;
use hivewright_actors::plugin::StartFault;
use rmcp::{Peer, RoleClient};

use super::{Instances, LEASE_TIMEOUT, LIST_TIMEOUT, Settled, TeamPlugin};
use crate::{
    mcp::{
        definition::{self, Bounds, Definition, Definitions},
        opening,
    },
    plugins::package::Package,
};

/// A tool of a plugin, for a turn.
#[derive(Clone)]
pub struct Offer {
    pub plugin: Arc<TeamPlugin>,
    pub package: Arc<Package>,
    pub definition: Definition,
}

/// What the plugins of a team bring to a turn.
#[derive(Clone, Default)]
pub struct Offers {
    pub tools: Vec<Offer>,
    /// Plugins whose tools are missing, by key.
    pub missing: Vec<String>,
    /// All plugins that are switched on, for their hooks.
    pub settled: Settled,
    /// Names this list.
    names: Vec<(usize, String, u64)>,
}

impl PartialEq for Offers {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names && self.missing == other.missing
    }
}

impl Instances {
    /// What plugins bring, as far as it is known.
    pub fn offers(settled: &Settled) -> Offers {
        let absent = settled.absent.iter().map(|plugin| plugin.key.clone());
        let mut offers =
            Offers { settled: settled.clone(), missing: absent.collect(), ..Offers::default() };
        for (plugin, package) in &settled.plugins {
            let (known, version) = {
                let state = plugin.state();
                (state.offers.clone(), state.version)
            };
            let life = Arc::as_ptr(plugin) as usize;
            offers.names.push((life, package.digest.clone(), version));
            if package.manifest.tools.is_none() {
                continue;
            }
            let Some(known) = known else {
                offers.missing.push(plugin.key.clone());
                continue;
            };
            offers.tools.extend(known.tools.iter().map(|definition| Offer {
                plugin: Arc::clone(plugin),
                package: Arc::clone(package),
                definition: definition.clone(),
            }));
        }
        offers
    }

    /// What plugins bring. Those whose tools nobody knows yet, or that were changed since, are started for it, all at once; one
    /// that fails is missing, or has the tools that it had.
    pub async fn list(settled: &Settled) -> Offers {
        let unlisted = settled.plugins.iter().filter(|(plugin, package)| {
            let state = plugin.state();
            package.manifest.tools.is_some() && (state.offers.is_none() || state.is_outdated)
        });
        // What is wrong with one is kept with it.
        let starts = unlisted.map(|(plugin, _)| async move {
            let timeout = plugin.start_timeout().clamp(LEASE_TIMEOUT, LIST_TIMEOUT);
            plugin.lease_within(timeout).await.map(drop)
        });
        join_all(starts).await;
        Self::offers(settled)
    }
}

/// The tools of a child, as far as they are taken over; none if the plugin has none by its manifest.
pub(super) async fn tools(
    peer: &Peer<RoleClient>,
    plugin: &TeamPlugin,
) -> Result<Option<Definitions>, StartFault> {
    let package = plugin.package();
    let Some(tools) = package.as_ref().and_then(|package| package.manifest.tools.as_ref()) else {
        return Ok(None);
    };
    let (offered, is_whole) =
        opening::pages(peer).await.map_err(|reason| StartFault { reason, for_good: false })?;
    if offered.len() > tools.max || !is_whole {
        let count = offered.len();
        let reason = format!("too_many_tools: it has {count}, and `tools.max` is {}", tools.max);
        return Err(StartFault { reason, for_good: true });
    }
    let bounds = Bounds {
        most_tools: tools.max,
        longest_name: 64,
        in_names: b"_-",
        longest_description: 2_000,
        largest_schema: 32 << 10,
        largest_of_all: 2 << 20,
    };
    let taken = definition::take(offered, &["*".to_owned()], &bounds);
    for left_out in &taken.left_out {
        tracing::warn!(team = %plugin.team.name, plugin = plugin.key, left_out, "a tool of a plugin is left out");
    }
    Ok(Some(taken))
}
