//! What a team works with in one role: as itself or as a subagent, with or without a skill.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use hivewright_actors::{
    briefing::{BriefError, Price},
    engine::Engine,
    ids::TeamName,
    task::{Cycle, Label, Options},
    text::quoted,
    tool::Toolset,
};

use super::{
    Gathered, Inner, Kit, config_error,
    model::{Chosen, RoleSource, price, unpriced},
};
use crate::{
    engines::installed::Installed,
    mcp::Offers,
    plugins::hooks::Hooks,
    prompt::{
        compose::Cast, library::Library, parts::ToolAvailability, role::Role, subagents::Subagent,
    },
    sandbox::workspace::Workspace,
    settings::{config::Sdk, tool_groups::ToolGroup},
    system::sha256,
    teams::self_changes::{Earlier, PROPOSE},
    tools::{
        REGISTRY,
        agent::Agent,
        contract::Tool,
        filter::{FilterError, ToolFilter},
        grant::Grant,
        host::{Asleep, TeamTools},
        made::Made,
        mcp, plugin,
        plugin_tool::{
            loading::{Loaded, LoadedTools},
            manage, run,
        },
        propose_change::ProposeChange,
        use_skill::{Gives, UseSkill},
        web::{repository::SearchSkillRepository, search::WebSearch},
        wire::wire_name,
    },
};

/// So many roles of a team are kept ready.
const ROLES: usize = 16;

/// What the session of a subagent may have: nothing that only the team itself does.
pub(super) fn inner() -> Result<ToolFilter, FilterError> {
    ToolFilter::parse(&["*", "!@org", "!@triggers", "!@trust", "!@subagents"], REGISTRY)
}

/// What a run may have in which a team looks back at itself: it reads and remembers. It changes
/// nothing else and talks to nobody; what it is itself it changes by a proposal.
pub(super) fn looking_back() -> Result<ToolFilter, FilterError> {
    let reading = ["get_status", "list_completed_tasks", "list_teams", "whoami"];
    let org = REGISTRY.members(ToolGroup::Org);
    let not_reading = org.filter(|tool| !reading.contains(tool));
    let mut patterns: Vec<String> = not_reading.map(|tool| format!("!{tool}")).collect();
    let others = [
        "*",
        "!edit",
        "!write",
        "!send_file",
        "!@shell",
        "!@triggers",
        "!@trust",
        "!@browser",
        "!@plugins",
        "!@mcp",
        "!vault_delete",
        "!vault_set",
    ];
    patterns.extend(others.map(ToOwned::to_owned));
    ToolFilter::parse(&patterns, REGISTRY)
}

/// What a team works with in one role.
pub(super) struct Part {
    pub(super) cast: Cast,
    /// The role in which it looks back at itself.
    cycle: Option<Cycle>,
    /// The profile that its topic chose.
    profile: Option<String>,
    workspace: Arc<Workspace>,
    /// What servers and plugins of the team offered when its tools were chosen.
    offers: Gathered,
    /// The tools of the team that its skills need.
    loaded: LoadedTools,
    /// The command-line agent that runs it, as it was found: another version is another engine, and none is an error.
    installed: Result<Option<Installed>, String>,
    /// How far what it is told of its tools may be believed.
    pub(super) label: Label,
    pub(super) tools: TeamTools,
    pub(super) toolset_hash: String,
    pub(super) builtins: Arc<[ToolAvailability]>,
    pub(super) notes: Vec<String>,
    pub(super) engine: Arc<dyn Engine>,
    pub(super) sdk: Sdk,
    pub(super) provider: String,
    pub(super) model: String,
    pub(super) price: Price,
    /// The most tokens that the model reads at once.
    pub(super) room: u64,
    /// A profile that may answer and does not state what calls cost.
    pub(super) unpriced: Option<String>,
}

/// What may differ from one turn to the next: a part is good as long as it is the same.
struct Found {
    offers: Gathered,
    loaded: LoadedTools,
    installed: Result<Option<Installed>, String>,
}

impl Inner {
    pub(super) fn part(
        &self,
        name: &TeamName,
        kit: &Kit,
        options: &Options,
        inner: bool,
        offers: Gathered,
    ) -> Result<Arc<Part>, BriefError> {
        let library = self.prompts.library(name);
        let (subagent, skill) = (options.subagent.as_deref(), options.skill.as_deref());
        if let (Some(subagent), Some(skill)) = (subagent, skill) {
            tracing::warn!(team = %name, subagent, skill, "a task names a subagent and a skill; the subagent is taken");
        }
        let role = Role::choose(&library, subagent, skill, inner).map_err(config_error)?;
        let loaded =
            self.plugin_tools.load(name, &kit.grant.workspace, required(&role, options.cycle));
        let installed = self.engines.installed(kit.team.sdk, &kit.agents);
        let mut parts = kit.roles.lock();
        parts.retain(|part| Arc::ptr_eq(&part.cast.library, &library));
        let known = parts.iter().find(|part| {
            part.cast.role == role
                && part.cycle == options.cycle
                && part.profile == options.profile
                && part.offers == offers
                && part.loaded == loaded
                && installed.is_ok()
                && part.installed == installed
        });
        if let Some(part) = known {
            return Ok(part.clone());
        }
        let found = Found { offers, loaded, installed };
        let part = Arc::new(self.make_part(name, kit, library, role, options, found)?);
        if parts.len() >= ROLES {
            parts.clear();
        }
        parts.push(part.clone());
        Ok(part)
    }

    fn make_part(
        &self,
        name: &TeamName,
        kit: &Kit,
        library: Arc<Library>,
        role: Role,
        options: &Options,
        Found { offers, loaded, installed }: Found,
    ) -> Result<Part, BriefError> {
        let cycle = options.cycle;
        let team_file = self.home.team_file(name.as_str());
        let source = RoleSource { team_file, subagent: role.subagent.clone() };
        let Chosen { profile: chosen, engine } = self.choose(kit, options, &source)?;
        let mut grant = narrowed(kit.grant.clone(), &role, cycle, &source)?;
        let proposes = proposes(&role, cycle);
        if proposes {
            grant.allowed = grant.allowed.and_always(PROPOSE);
        }
        let workspace = grant.workspace.clone();
        let label = label(&offers.servers, &grant.allowed);
        let loads = !role.loadable.is_empty() && grant.allowed.allows(UseSkill::ABOUT.name);
        let cast = Cast { library, role, loads };
        let mut made = self.made(&cast);
        made.extend(self.made_of_settings(kit));
        made.extend(mcp::tools(&self.servers, &self.files, &offers.servers));
        made.extend(plugin::tools(&offers.plugins.tools, &self.files));
        made.extend(manage::made(&self.plugin_tools, &kit.team.egress));
        let own = loaded.tools.iter();
        made.extend(own.map(|tool| run::made(&self.plugin_tools, &self.web, name, tool)));
        if proposes {
            made.push(self.propose_change(&workspace, Earlier::default()));
        }
        let hooks = Hooks::of(&offers.plugins.settled);
        let tools = self.toolbox.assemble(grant, made).with_hooks(hooks);
        let specs = tools.specs();
        let has = |tool: &str| specs.iter().any(|spec| spec.name == tool);
        Ok(Part {
            toolset_hash: sha256(&serde_json::to_vec(&*specs).unwrap_or_default())[..16].to_owned(),
            builtins: REGISTRY
                .built_in()
                .map(|tool| ToolAvailability { tool, enabled: has(tool) })
                .collect(),
            notes: notes(&cast, &has)
                .into_iter()
                .chain(missing(&offers.servers.missing, UNREACHED))
                .chain(missing(&offers.plugins.missing, NOT_RUNNING))
                .chain(withheld(name, &loaded, &has))
                .collect(),
            engine,
            sdk: kit.team.sdk,
            provider: chosen.provider.as_str().to_owned(),
            price: price(&chosen),
            room: u64::from(chosen.context_window.saturating_sub(chosen.max_output_tokens)),
            unpriced: unpriced(&kit.models.profiles, &chosen.name),
            model: chosen.model,
            tools,
            cast,
            cycle,
            profile: options.profile.clone(),
            workspace,
            label,
            offers,
            loaded,
            installed,
        })
    }

    fn propose_change(&self, workspace: &Arc<Workspace>, earlier: Earlier) -> Made {
        Made::of(ProposeChange::new(self.changes.clone(), workspace.clone(), earlier))
    }

    /// The tools of one turn: it remembers the skills that it loaded, and knows what it proposed before.
    pub(super) fn tools(&self, part: &Part, earlier: Earlier) -> Arc<dyn Toolset> {
        let mut own = Vec::new();
        let gives = gives(part);
        let asleep = gives.asleep.clone();
        if part.cast.loads {
            own.push(use_skill(&part.cast, gives));
        }
        if proposes(&part.cast.role, part.cycle) {
            own.push(self.propose_change(&part.workspace, earlier));
        }
        part.tools.with_own(own, asleep)
    }

    /// Tools that there are if the settings of providers say where they look.
    fn made_of_settings(&self, kit: &Kit) -> impl Iterator<Item = Made> {
        let providers = &kit.models.providers;
        let search = providers.search.as_ref();
        let search = search.and_then(|search| WebSearch::new(self.web.clone(), search));
        let skills = providers.skill_repository.as_deref();
        let skills = skills.and_then(|url| SearchSkillRepository::new(self.web.clone(), url));
        search.map(Made::of).into_iter().chain(skills.map(Made::of))
    }

    /// Tools that come of the role.
    fn made(&self, cast: &Cast) -> Vec<Made> {
        let mut made = Vec::new();
        if cast.loads {
            made.push(use_skill(cast, Gives::default()));
        }
        // A subagent calls no other.
        if cast.role.subagent.is_none()
            && let Some(runner) = &self.agents
        {
            let agents = cast.library.subagents().map(|subagent| {
                let key = Agent::key(&subagent.name);
                Made::new(key, Agent::new(subagent.clone(), runner.clone()))
            });
            made.extend(agents);
        }
        made
    }
}

/// What a team may use, less what its role may not.
fn narrowed(
    mut grant: Grant,
    role: &Role,
    cycle: Option<Cycle>,
    source: &RoleSource,
) -> Result<Grant, BriefError> {
    let patterns = role.subagent.as_deref().and_then(|own| own.allowed_tools.as_deref());
    let narrower = [
        (true, patterns.map(|patterns| ToolFilter::parse(patterns, REGISTRY))),
        (false, role.inner.then(inner)),
        (false, cycle.map(|_| looking_back())),
    ];
    for (is_own, filter) in narrower {
        if let Some(filter) = filter {
            let filter = filter.map_err(|error| source.wrong(is_own, "allowed_tools", &error))?;
            grant.allowed = grant.allowed.narrowed(filter);
        }
    }
    Ok(grant)
}

/// A session that a subagent is called for proposes nothing: its caller does.
fn proposes(role: &Role, cycle: Option<Cycle>) -> bool {
    cycle == Some(Cycle::Reflection) && !role.inner
}

/// The tools of the team that skills of the turn need, by the names that they use. Those of a cycle are left alone.
fn required(role: &Role, cycle: Option<Cycle>) -> BTreeSet<&str> {
    if cycle.is_some() {
        return BTreeSet::new();
    }
    let skills = role.active.iter().chain(&role.loadable);
    let names = skills.flat_map(|skill| skill.required_tools()).map(String::as_str);
    names.filter(|name| !REGISTRY.keys().any(|key| key == *name)).collect()
}

/// What a turn gets with the skills that it loads: for as long as it has none, it does not have their tools.
fn gives(part: &Part) -> Gives {
    let Part { cast: Cast { role, .. }, loaded, tools, .. } = part;
    let wired = |name: &str| wire_name(&run::key(tools.team(), name));
    let named = loaded.tools.iter().map(|Loaded { tool, .. }| tool.tool.as_str());
    let shown = tools.specs();
    let tools: BTreeMap<_, _> = named
        .map(|name| (name.to_owned(), wired(name)))
        .filter(|(_, wired)| shown.iter().any(|spec| spec.name == *wired))
        .collect();
    let active = role.active.iter().flat_map(|skill| skill.required_tools());
    let active: BTreeSet<_> = active.collect();
    let asleep = tools.iter().filter(|(name, _)| !active.contains(name));
    let asleep = Asleep::new(asleep.map(|(_, wired)| wired.clone()));
    Gives { asleep, tools: Arc::new(tools) }
}

/// Word of the team's own tools that its skills need and do not get.
fn withheld(team: &TeamName, loaded: &LoadedTools, has: &dyn Fn(&str) -> bool) -> Vec<String> {
    // A skill may also name a tool of a server or a plugin.
    let missing = loaded.missing.iter().filter(|(name, _)| !has(&wire_name(name)));
    let missing = missing.map(|(name, reason)| (name, reason.clone()));
    let not_shown = loaded
        .tools
        .iter()
        .map(|Loaded { tool, .. }| &tool.tool)
        .filter(|tool| !has(&wire_name(&run::key(team, tool))));
    let not_shown = not_shown.map(|tool| (tool, "it is not among the allowed tools".to_owned()));
    let all = missing.chain(not_shown);
    all.map(|(name, reason)| format!("`{name}`, which a skill needs, is missing: {reason}"))
        .collect()
}

fn use_skill(Cast { library, role, .. }: &Cast, gives: Gives) -> Made {
    Made::of(UseSkill::new(library.clone(), role.loadable.clone(), gives))
}

/// What a server says of its tools is read with every request: a turn that may have them believes nothing more than
/// what the server is believed. It is so also while the server cannot be reached, since the turn may have read it before.
fn label(offers: &Offers, allowed: &ToolFilter) -> Label {
    let is_told = |key: &String| allowed.could_allow(&format!("{key}."));
    if offers.untrusted.iter().any(is_told) { Label::Untrusted } else { Label::Trusted }
}

const UNREACHED: &str = "they cannot be reached: the tools of the MCP servers";
const NOT_RUNNING: &str = "they do not run: the tools of the plugins";

/// Word of servers or plugins whose tools are missing.
fn missing(names: &[String], why: &str) -> Option<String> {
    let listed = quoted(names);
    (!names.is_empty()).then(|| format!("missing for now, since {why} {listed}"))
}

/// What is to be said of tools beyond their own descriptions.
fn notes(cast: &Cast, has: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut notes = Vec::new();
    if has("web_fetch") {
        notes.push("`web_fetch`: preferred for HTTP".to_owned());
    }
    for Subagent { name, skills, .. } in cast.library.subagents().map(|subagent| &**subagent) {
        let tool = wire_name(&Agent::key(name));
        let required = skills.iter().filter_map(|skill| cast.library.skill(skill));
        let required = required.flat_map(|skill| skill.required_tools());
        let required = quoted(required);
        if has(&tool) && !required.is_empty() {
            notes.push(format!("{required}: ask the subagent with `{tool}`"));
        }
    }
    if cast.loads {
        for skill in &cast.role.loadable {
            let required = quoted(skill.required_tools());
            if !required.is_empty() {
                notes.push(format!("{required}: with the skill `{}`", skill.name()));
            }
        }
    }
    notes
}
