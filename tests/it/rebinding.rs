//! DNS rebinding: names that lead to the public internet when they are checked, and to this machine when they are used.
//!
//! The program is the real one, with the resolver of the machine. The tests run again in a network of their own, where they are
//! the name server, and the machine has an address of the public internet besides.

use serde_json::{Value, json};

use crate::{
    mcp::far,
    name_server::NameServer,
    namespaces,
    service::{Client, Service},
    web_server::{WebServer, page, response},
};

const PUBLIC: &str = "93.184.215.14";
const LOOPBACK: &str = "127.0.0.1";
const MAPPED: &str = "::ffff:127.0.0.1";
const METADATA: &str = "169.254.169.254";
const ADDRESSES: &str = "ip link set lo up && ip address add 93.184.215.14/32 dev lo";

const CONFIG: &str =
    "store: {durability: process}\npolicy: [{id: mcp, effect: allow, resource: \"mcp:*\"}]\n";
const CHANNELS: &str = "ws: {enabled: true}\ntopics: {model: never}\n";
const TEAM: &str = "max_steps: 50\nallowed_tools: [\"*\"]\negress: {allow_private: [\"cloud.example:80\"]}\n\
                    mcp_servers: {far: {url: \"http://tools.internal/mcp\"}}\n";

/// A service in a network whose only name server is ours.
struct Network {
    service: Service,
    names: NameServer,
    /// What stands for the public internet.
    public: WebServer,
    /// A service of this machine that nobody may reach.
    private: WebServer,
}

impl Network {
    /// None: the test ran again inside, or cannot.
    async fn start(test: &str) -> Option<Self> {
        if !namespaces::is_inside() {
            namespaces::run_again(test, &["--net", "--mount"], ADDRESSES).await;
            return None;
        }
        let service = Service::prepare()
            .with_file("names/resolv.conf", "nameserver 127.0.0.1\noptions timeout:60 attempts:1\n")
            .with_file("names/nsswitch.conf", "hosts: files dns\n")
            .with_file("data/config/config.yaml", CONFIG)
            .with_file("data/config/channels.yaml", CHANNELS)
            .with_file("run/teams/main/config.yaml", TEAM);
        for file in ["resolv.conf", "nsswitch.conf"] {
            let ours = service.path(&format!("names/{file}"));
            rustix::mount::mount_bind(ours, format!("/etc/{file}")).unwrap();
        }
        let private = |_: &str| Some(page("<title>Private</title>this machine"));
        Some(Self {
            names: NameServer::start_at("127.0.0.1:53").await,
            public: WebServer::start_at(&format!("{PUBLIC}:80"), public).await,
            private: WebServer::start_at("127.0.0.1:80", private).await,
            service: service.started().await,
        })
    }

    /// What the public host was asked for, as name and path.
    fn heard(&self) -> Vec<String> {
        let heard = |request: String| {
            let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
            let host = request.lines().find_map(|line| line.strip_prefix("host: "));
            format!("{}{path}", host.unwrap_or_default())
        };
        self.public.requests().into_iter().map(heard).collect()
    }
}

/// A host of the public internet: `/again` leads to another of its pages, `/inside` to another name.
fn public(request: &str) -> Option<String> {
    let to = |place: &str| response(&format!("302 Found\r\nLocation: {place}"), "");
    Some(match request.split(' ').nth(1).unwrap_or_default() {
        "/again" => to("/there"),
        "/inside" => to("http://inside.example/"),
        "/mcp" => return far::answer(request),
        _ => page("<title>Public</title>public <a href=/secret>More</a>"),
    })
}

async fn call(client: &mut Client, tool: &str, args: Value) -> String {
    let end = client.ask(&format!("#call {tool} {args}\n#reply {{result}}")).await;
    end["content"].as_str().unwrap_or_else(|| panic!("{end}")).to_owned()
}

fn blocked(address: &str) -> String {
    format!("blocked: private or reserved address {address}")
}

/// TO-72, TO-73, SC-11, SC-62: each connection looks a name up once, and goes where that was checked; so do each redirect and
/// each request to an MCP server.
#[actix::test]
async fn a_name_that_is_rebound_never_leads_to_this_machine() {
    let test = "rebinding::a_name_that_is_rebound_never_leads_to_this_machine";
    let Some(network) = Network::start(test).await else { return };
    let Network { service, names, .. } = &network;
    let mut client = service.connect().await;

    // On private ground, where no server of a team may be led to credentials either.
    names.lead("tools.internal", &[&[PUBLIC]]);
    let near = call(&mut client, "mcp__far__echo", json!({"words": "a"})).await;
    names.lead("tools.internal", &[&[METADATA]]);
    let moved = call(&mut client, "mcp__far__echo", json!({"words": "b"})).await;
    assert!(near.contains("far {\"words\":\"a\"}"), "{near}");
    assert!(moved.contains("the MCP server `far` cannot be used now"), "{moved}");
    service.until_logged(&blocked(METADATA)).await;

    let mut fetch = async |url: &str| {
        let said = call(&mut client, "web_fetch", json!({ "url": format!("http://{url}") })).await;
        serde_json::from_str::<Value>(&said).map_or(said, |page| page["body"].to_string())
    };

    // The first lookup, the second, and so on: what comes of a fetch, and how many lookups that took.
    let table: [(&str, &[&[&str]], String, usize); 8] = [
        ("rebound.example/", &[&[PUBLIC], &[LOOPBACK]], "public".to_owned(), 1),
        ("both.example/", &[&[PUBLIC, LOOPBACK]], blocked(LOOPBACK), 1),
        ("mapped.example/", &[&[MAPPED]], blocked(MAPPED), 1),
        ("sixth.example/", &[&[PUBLIC, "::1"]], blocked("::1"), 1),
        ("steady.example/again", &[&[PUBLIC]], "public".to_owned(), 2),
        ("redirected.example/again", &[&[PUBLIC], &[LOOPBACK]], blocked(LOOPBACK), 2),
        // Which the team may reach in private networks too.
        ("cloud.example/again", &[&[PUBLIC], &[METADATA]], blocked(METADATA), 2),
        ("leading.example/inside", &[&[PUBLIC]], blocked(LOOPBACK), 1),
    ];
    names.lead("inside.example", &[&[LOOPBACK]]);
    for (url, lookups, expected, count) in table {
        let name = url.split('/').next().unwrap();
        names.lead(name, lookups);
        let said = fetch(url).await;
        assert!(said.contains(&expected), "{url}: {said}");
        assert_eq!(names.lookups(name), count, "{url}");
    }
    let rebound = fetch("rebound.example/").await;
    assert!(rebound.contains(&blocked(LOOPBACK)), "{rebound}");

    let fetched = [
        "rebound.example/",
        "steady.example/again",
        "steady.example/there",
        "redirected.example/again",
        "cloud.example/again",
        "leading.example/inside",
    ];
    let heard = network.heard();
    let heard: Vec<_> = heard.iter().filter(|url| !url.ends_with("/mcp")).collect();
    assert_eq!(heard, fetched.iter().collect::<Vec<_>>());
    assert_eq!(network.private.requests(), Vec::<String>::new());
}

/// TO-89, SC-11: what a browser opens is looked up by its proxy, which connects where it has looked.
#[actix::test]
async fn a_page_whose_name_is_rebound_never_leads_to_this_machine() {
    let test = "rebinding::a_page_whose_name_is_rebound_never_leads_to_this_machine";
    let Some(network) = Network::start(test).await else { return };
    let Network { service, names, .. } = &network;
    let mut client = service.connect().await;
    let mut browse = async |url: &str| {
        call(&mut client, "browser_navigate", json!({ "url": format!("http://{url}") })).await
    };

    // Checked before the browser is asked, and once more when it connects.
    names.lead("rebound.example", &[&[PUBLIC], &[LOOPBACK]]);
    let rebound = browse("rebound.example/").await;
    names.lead("steady.example", &[&[PUBLIC]]);
    let steady = browse("steady.example/").await;
    names.lead("steady.example", &[&[MAPPED]]);
    let seen = call(&mut client, "browser_snapshot", json!({})).await;
    let link = seen.lines().find(|line| line.contains("link \"More\"")).unwrap();
    let link = link.rsplit_once("[ref=").unwrap().1.trim_end_matches(']');
    let clicked = call(&mut client, "browser_click", json!({ "ref": link })).await;

    assert!(rebound.contains(&blocked(LOOPBACK)), "{rebound}");
    assert!(steady.contains("page: \"Public\""), "{steady}");
    assert!(clicked.contains(&blocked(MAPPED)), "{clicked}");
    assert!(network.heard().iter().all(|url| url.starts_with("steady.example/")));
    assert_eq!(network.private.requests(), Vec::<String>::new());
}
