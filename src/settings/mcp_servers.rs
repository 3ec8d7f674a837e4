//! `mcp_servers` of a team file: programs and addresses that offer a team tools over MCP.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use hivewright_actors::words;
use serde_json::{Value as Json, json};

use super::{
    config::DAY,
    declare::settings,
    document::Cure,
    field::Field,
    folder_access::{Access, check_dir},
    network,
    reader::{Group, Section},
    setting::{Setting, choices},
};

/// The most servers of a team.
const MOST: usize = 16;
const LONGEST_NAME: usize = 32;
/// Our own server, for agents, has this name.
const RESERVED: &str = "hivewright";
/// Variables that the sandbox sets itself.
const FIXED: [&str; 7] = ["PATH", "HOME", "TMPDIR", "USER", "LANG", "TERM", "SHELL"];
/// Headers that the protocol sets itself.
const OWN_HEADERS: [&str; 7] = [
    "accept",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
];
const SECOND: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(600);

settings! {
    /// A server that offers a team tools over MCP.
    #[retired(RETIRED)]
    #[check(check)]
    pub struct McpServer {
        /// The program: a path, or the name of a program of the system.
        command: Option<String> = None,
        /// Its arguments.
        args: Vec<String> = Vec::new(),
        /// Its variables beside the usual ones; ${vault:KEY} is a secret of the team.
        #[read(read_variables)]
        env: BTreeMap<String, String> = BTreeMap::new(),
        /// Where it is, instead of a program.
        #[read(read_url)]
        url: Option<String> = None,
        /// Headers of each request; ${vault:KEY} is a secret of the team.
        #[read(read_headers)]
        headers: BTreeMap<String, String> = BTreeMap::new(),
        /// Which of its tools the team is offered, by name or pattern; `!` in front takes away.
        tools: Vec<String> = vec!["*".to_owned()],
        /// What it says is believed, and what it says of its tools.
        trusted: bool = false,
        /// What a program may do in the folders of the team.
        workspace: FolderAccess = FolderAccess::Off,
        /// Whether a program has the network of this machine.
        network: ServerNetwork = ServerNetwork::Off,
        /// Folders that a program sees besides, such as the one that it is installed in.
        #[read(read_dirs)]
        read_dirs: Vec<PathBuf> = Vec::new(),
        /// The longest start, until its tools are known.
        #[range(SECOND..=LONGEST_WAIT)]
        connect_timeout: Duration = Duration::from_secs(20),
        /// The longest call.
        #[range(SECOND..=LONGEST_WAIT)]
        call_timeout: Duration = Duration::from_secs(60),
        /// A server that nobody has called for so long is ended until the next call.
        #[range(SECOND..=DAY)]
        idle_timeout: Duration = Duration::from_secs(300),
    }
}

words! {
    /// What a server may do in the folders of its team.
    pub enum FolderAccess {
        /// It sees none of them.
        Off = "off",
        /// Look only.
        ReadOnly = "ro",
        /// Look and change.
        ReadWrite = "rw",
    }
}

words! {
    /// Whom a server can reach.
    pub enum ServerNetwork {
        /// Nobody.
        Off = "off",
        /// Whomever this machine can reach, itself included.
        On = "on",
    }
}

choices!(FolderAccess, ServerNetwork);

const RETIRED: [(&str, Cure, &str); 2] =
    [("type", Cure::Remove, ONE_OF_BOTH), ("transport", Cure::Remove, ONE_OF_BOTH)];
const ONE_OF_BOTH: &str = "leave it out: `command` is a program, `url` an address";

impl FolderAccess {
    pub fn access(self) -> Option<Access> {
        match self {
            Self::Off => None,
            Self::ReadOnly => Some(Access::ReadOnly),
            Self::ReadWrite => Some(Access::ReadWrite),
        }
    }
}

/// The servers of a team, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct McpServers(pub BTreeMap<String, McpServer>);

impl Setting for McpServers {
    type Bounds = ();

    fn read(field: &Field<'_>, (): &()) -> Option<Self> {
        let members = field.members()?;
        if members.len() > MOST {
            return field.reject(format!("a team has at most {MOST} servers"));
        }
        let servers = members.into_iter().filter_map(|(name, field)| {
            if !is_name(name) {
                return field.reject(format!(
                    "a server has a name of 1 to {LONGEST_NAME} letters from a to z, digits, `_` and `-`, other than `{RESERVED}`"
                ));
            }
            Some((name.to_owned(), field.section(McpServer::read)))
        });
        Some(Self(servers.collect()))
    }

    fn shown(&self) -> Json {
        // There are none by default, and a file shows its own.
        json!({})
    }
}

fn is_name(name: &str) -> bool {
    let good =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(good) && name != RESERVED
}

fn check(server: McpServer, section: &mut Section<'_>) -> McpServer {
    // One that is wrong is reported already.
    let (program, address) = (section.field("command").is_some(), section.field("url").is_some());
    match (program, address) {
        (true, false) | (false, true) => {}
        (false, false) => section.reject("needs a `command` or a `url`"),
        (true, true) => section.reject("has a `command` and a `url`; keep one"),
    }
    let of_programs = ["args", "env", "workspace", "network", "read_dirs"];
    let (others, what) = if address {
        (&of_programs[..], "is for programs, and this server has a `url`")
    } else {
        (&["headers"][..], "is for addresses, and this server has a `command`")
    };
    for key in others {
        if let Some(field) = section.field(key) {
            field.reject::<()>(what);
        }
    }
    server
}

fn read_url(field: &Field<'_>) -> Option<String> {
    field.parse(network::server_url)
}

fn read_variables(field: &Field<'_>) -> Option<BTreeMap<String, String>> {
    let variables = BTreeMap::read(field, &())?;
    for (name, value) in &variables {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || name.as_bytes()[0].is_ascii_digit() || !name.bytes().all(good) {
            return field.reject(format!("`{name}` is not a name of a variable"));
        }
        if FIXED.contains(&name.as_str()) || name.starts_with("LD_") {
            return field.reject(format!("`{name}` cannot be set"));
        }
        if value.contains('\0') {
            return field.reject(format!("`{name}` holds a NUL byte"));
        }
    }
    Some(variables)
}

fn read_headers(field: &Field<'_>) -> Option<BTreeMap<String, String>> {
    let headers = BTreeMap::read(field, &())?;
    for name in headers.keys() {
        let is_good = reqwest::header::HeaderName::from_bytes(name.as_bytes()).is_ok();
        if !is_good || OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            return field.reject(format!("`{name}` cannot be set"));
        }
    }
    Some(headers)
}

fn read_dirs(field: &Field<'_>) -> Option<Vec<PathBuf>> {
    let home = field.home();
    field.list(|item| item.parse(|text| check_dir(Path::new(text), home)))
}
