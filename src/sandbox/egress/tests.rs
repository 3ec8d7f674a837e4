//! Where the guard lets requests go.

use reqwest::{Method, header::HeaderMap};

use super::{
    request::{Request, Terms},
    *,
};

pub(crate) mod doubles;

use doubles::{Act, Answers, Host, redirect, response};

fn egress(domains: &[&str], pairs: &[&str]) -> Egress {
    Egress {
        allowed_domains: domains.iter().map(|text| text.parse().unwrap()).collect(),
        allow_private: pairs.iter().map(|text| text.parse().unwrap()).collect(),
    }
}

async fn get(guard: &Guard, url: &str, egress: &Egress) -> Result<String, EgressError> {
    let request = Request {
        method: Method::GET,
        url: url.parse().map_err(|_| EgressError::InvalidUrl)?,
        headers: HeaderMap::new(),
        body: None,
    };
    let terms = Terms::new(egress, &|_| Ok(()), &|_| false);
    let (mut response, _) = guard.send(request, &terms).await?;
    let body = body::read(&mut response, 1 << 20).await?;
    Ok(String::from_utf8_lossy(&body.bytes).into_owned())
}

async fn refusal(guard: &Guard, url: &str, egress: &Egress) -> String {
    match get(guard, url, egress).await {
        Ok(body) => panic!("{url} answered {body}"),
        Err(error) => error.to_string(),
    }
}

fn port(host: &Host) -> &str {
    host.address.rsplit(':').next().unwrap()
}

/// TO-70, TO-71, TO-75, SC-11: each spelling of an address is that address, and names that are never public
/// are not looked up.
#[tokio::test]
async fn what_is_not_public_is_not_reached_however_it_is_spelled() {
    let answers = Answers::of(&["93.184.215.14"]);
    let guard = Guard::new(answers.clone());
    let open = Egress::default();
    let blocked = |address: &str| format!("blocked: private or reserved address {address}");
    let table = [
        ("http://127.0.0.1/", "127.0.0.1"),
        ("http://127.1:8080/", "127.0.0.1"),
        ("http://2130706433/", "127.0.0.1"),
        ("http://0x7f.0.0.1/", "127.0.0.1"),
        ("http://0177.0.0.01/", "127.0.0.1"),
        ("http://１２７.0.0.1/", "127.0.0.1"),
        ("http://127.0.0.1./", "127.0.0.1"),
        ("http://%31%32%37.0.0.1/", "127.0.0.1"),
        ("http://0/", "0.0.0.0"),
        ("http://[::]/", "::"),
        ("http://[::1]/", "::1"),
        ("http://[0:0:0:0:0:ffff:127.0.0.1]/", "::ffff:127.0.0.1"),
        ("http://[::ffff:7f00:1]/", "::ffff:127.0.0.1"),
        ("https://[64:ff9b::10.0.0.1]/", "64:ff9b::a00:1"),
        ("http://169.254.169.254/latest/meta-data/", "169.254.169.254"),
        ("http://10.1.2.3/", "10.1.2.3"),
        ("http://[fe80::1]/", "fe80::1"),
        ("http://[fd00::1]/", "fd00::1"),
        ("http://localhost/", "localhost"),
        ("http://LOCALHOST.:9/", "localhost"),
        ("http://a.localhost/", "a.localhost"),
        ("http://printer.local/", "printer.local"),
        ("http://metadata.google.internal/", "metadata.google.internal"),
        ("https://internal/", "internal"),
    ];

    for (url, address) in table {
        assert_eq!(refusal(&guard, url, &open).await, blocked(address), "{url}");
    }
    for (url, reason) in [
        ("ftp://example.org/", "blocked: scheme ftp not allowed"),
        ("file:///etc/passwd", "blocked: scheme file not allowed"),
        ("gopher://example.org/", "blocked: scheme gopher not allowed"),
        ("http://ann@example.org/", "blocked: user name or password in the URL"),
        ("http://ann:pw@example.org/", "blocked: user name or password in the URL"),
        ("http://", "invalid URL"),
        ("example.org", "invalid URL"),
        ("data:text/html,x", "blocked: scheme data not allowed"),
    ] {
        assert_eq!(refusal(&guard, url, &open).await, reason, "{url}");
    }
    assert_eq!(answers.asked(), 0);
}

/// TO-72: one private address among public ones is enough.
#[tokio::test]
async fn a_name_with_any_private_address_is_not_reached() {
    for bad in
        ["127.0.0.1", "10.0.0.1", "::1", "::ffff:192.168.0.1", "169.254.169.254", "fd00:ec2::254"]
    {
        let guard = Guard::new(Answers::of(&["93.184.215.14", bad]));

        let refused = refusal(&guard, "http://example.org/", &Egress::default()).await;

        assert_eq!(refused, format!("blocked: private or reserved address {bad}"));
    }
}

/// TO-74: an exemption is for exactly that pair, and never for where clouds tell credentials.
#[tokio::test]
async fn an_exemption_is_for_one_host_and_port() {
    let host = Host::saying("200 OK", "wiki").await;
    let guard = Guard::new(Answers::of(&["127.0.0.1"]));
    let pair = format!("wiki.internal:{}", port(&host));
    let open = egress(&[], &[&pair, "169.254.169.254:80", "[fd00:ec2::254]:80"]);

    assert_eq!(get(&guard, &format!("http://{pair}/"), &open).await.unwrap(), "wiki");
    assert_eq!(
        get(&guard, &format!("http://WIKI.internal.:{}/", port(&host)), &open).await.unwrap(),
        "wiki"
    );
    for url in [
        format!("http://{}/", host.address),
        "http://wiki.internal/".to_owned(),
        format!("http://other.internal:{}/", port(&host)),
        "http://169.254.169.254/".to_owned(),
        "http://[fd00:ec2::254]/".to_owned(),
    ] {
        let refused = refusal(&guard, &url, &open).await;
        assert!(refused.starts_with("blocked: private or reserved address "), "{url}: {refused}");
    }
    assert_eq!(host.requests().len(), 2);
}

/// TO-74, TO-75: the list names hosts; what is private comes first.
#[tokio::test]
async fn a_list_of_domains_is_a_list() {
    let host = Host::saying("200 OK", "listed").await;
    let answers = Answers::of(&["127.0.0.1"]);
    let guard = Guard::new(answers.clone());
    let at = |name: &str| format!("{name}:{}", port(&host));
    let (bare, sub) = (at("example.org"), at("a.b.example.net"));
    let listed = egress(&["example.org", "*.example.net"], &[&bare, &sub]);

    assert!(get(&guard, &format!("http://{bare}/"), &listed).await.is_ok());
    assert!(get(&guard, &format!("http://{sub}/"), &listed).await.is_ok());
    let asked = answers.asked();
    for name in ["example.net", "www.example.org", "badexample.net", "example.org.evil.test"] {
        let refused = refusal(&guard, &format!("http://{name}/"), &listed).await;
        assert_eq!(refused, format!("domain not in allowlist: {name}"));
    }
    let private = refusal(&guard, "http://10.0.0.1/", &listed).await;
    assert_eq!(private, "blocked: private or reserved address 10.0.0.1");
    assert_eq!(answers.asked(), asked, "what is not on the list is not looked up");
}

/// TO-73
#[tokio::test]
async fn redirects_are_followed_five_times_and_checked_each_time() {
    let host = Host::start(|request| {
        let count: usize = request.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
        let answer = match count {
            0 => response("200 OK", b"there"),
            100 => redirect("302 Found", "http://127.0.0.1:1/secret"),
            101 => redirect("307 Temporary Redirect", "ftp://example.org/"),
            102 => redirect("301 Moved", "http://user@example.org/"),
            103 => redirect("301 Moved", "http://[::ffff:127.0.0.1]:1/"),
            104 => response("302 Found", b"without a place"),
            105 => redirect("302 Found", "http://"),
            _ => redirect("302 Found", &format!("/{}", count - 1)),
        };
        vec![Act::Send(answer)]
    })
    .await;
    let (guard, open) = (Guard::default(), egress(&[], &[&host.address]));
    let fetch = |count: usize| {
        let (guard, open, url) = (guard.clone(), open.clone(), host.url(&format!("/{count}")));
        async move { get(&guard, &url, &open).await.map_err(|error| error.to_string()) }
    };
    let private = |address: &str| Err(format!("blocked: private or reserved address {address}"));

    assert_eq!(fetch(5).await, Ok("there".to_owned()));
    assert_eq!(fetch(6).await, Err("too many redirects".to_owned()));
    assert_eq!(fetch(100).await, private("127.0.0.1"));
    assert_eq!(fetch(101).await, Err("blocked: scheme ftp not allowed".to_owned()));
    assert_eq!(fetch(102).await, Err("blocked: user name or password in the URL".to_owned()));
    assert_eq!(fetch(103).await, private("::ffff:127.0.0.1"));
    assert_eq!(fetch(104).await, Ok("without a place".to_owned()));
    assert_eq!(fetch(105).await, Err("invalid URL".to_owned()));
}

/// TO-72: the machine's proxies are not asked, whatever its environment says. Checked by the form of the request:
/// a proxy would be sent the whole address.
#[tokio::test]
async fn no_proxy_stands_between() {
    let host = Host::saying("200 OK", "direct").await;

    get(&Guard::default(), &host.url("/x"), &egress(&[], &[&host.address])).await.unwrap();

    let request = host.requests().concat();
    assert!(request.starts_with("GET /x HTTP/1.1\r\n"), "{request}");
}

/// TO-72: a name that does not resolve says so.
#[tokio::test]
async fn what_cannot_be_reached_is_named() {
    let nowhere = Guard::new(Answers::none());
    let empty = Guard::new(Answers::of(&[]));
    let closed = {
        let host = Host::saying("200 OK", "").await;
        host.address.clone()
    };

    let lost = refusal(&nowhere, "http://example.org/", &Egress::default()).await;
    let none = refusal(&empty, "http://example.org/", &Egress::default()).await;
    let refused =
        refusal(&Guard::default(), &format!("http://{closed}/"), &egress(&[], &[&closed])).await;

    assert!(lost.starts_with("`example.org` cannot be resolved: "), "{lost}");
    assert_eq!(none, "`example.org` cannot be resolved: it has no address");
    assert!(refused.starts_with("the connection to `127.0.0.1` failed: "), "{refused}");
}

/// The certificates of the machine are read once, and checked against the name.
#[tokio::test]
async fn a_host_that_cannot_prove_its_name_is_not_talked_to() {
    let host = Host::saying("200 OK", "no TLS here").await;
    let url = format!("https://{}/", host.address);

    let refused = refusal(&Guard::default(), &url, &egress(&[], &[&host.address])).await;

    assert!(refused.starts_with("the connection to `127.0.0.1` failed: "), "{refused}");
}
