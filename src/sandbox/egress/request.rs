//! A request through the guard: each target of a redirect is checked as the first one was.

use reqwest::{
    Method, StatusCode, Url,
    header::{self, HeaderMap, HeaderName, HeaderValue},
};

use super::{EgressError, Guard};
use crate::{
    settings::{egress::Egress, network::host_name},
    text::root_cause,
};

const MOST_REDIRECTS: usize = 5;

/// What is about a body, and goes where the body goes.
const OF_BODY: [HeaderName; 4] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LOCATION,
];

/// What is sent.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Option<Vec<u8>>,
}

/// Headers that say how a message is framed and routed: these are ours.
pub fn is_ours(header: &str) -> bool {
    const OURS: [&str; 6] =
        ["host", "content-length", "connection", "transfer-encoding", "upgrade", "te"];
    let header = header.to_ascii_lowercase();
    OURS.contains(&&*header) || header.starts_with("proxy-")
}

/// A header that may hold a secret; none if one of the two cannot stand in a header.
pub fn sensitive(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some((HeaderName::try_from(name).ok()?, value))
}

/// What a request must keep to, wherever it is led.
pub struct Terms<'a> {
    pub egress: &'a Egress,
    /// Whether it may go to a host; the error says why not.
    pub admit: &'a (dyn Fn(&str) -> Result<(), String> + Sync),
    /// Whether the value of a secret is in a text.
    pub holds_secret: &'a (dyn Fn(&str) -> bool + Sync),
    pub most_redirects: usize,
}

impl<'a> Terms<'a> {
    pub fn new(
        egress: &'a Egress,
        admit: &'a (dyn Fn(&str) -> Result<(), String> + Sync),
        holds_secret: &'a (dyn Fn(&str) -> bool + Sync),
    ) -> Self {
        Self { egress, admit, holds_secret, most_redirects: MOST_REDIRECTS }
    }
}

impl Guard {
    /// Sends a request, follows redirects, and returns the answer with where it came from. Dropping the future
    /// or the answer closes the connection.
    pub async fn send(
        &self,
        mut request: Request,
        terms: &Terms<'_>,
    ) -> Result<(reqwest::Response, Url), EgressError> {
        for followed in 0..=terms.most_redirects {
            let response = self.exchange(&request, terms).await?;
            let location = response.headers().get(header::LOCATION);
            let location = location.filter(|_| redirects(response.status()));
            let Some(location) = location else {
                return Ok((response, request.url));
            };
            if followed == terms.most_redirects {
                break;
            }
            let location = location.to_str().map_err(|_| EgressError::InvalidUrl)?;
            let to = request.url.join(location).map_err(|_| EgressError::InvalidUrl)?;
            request = led_on(request, response.status(), to, terms.holds_secret)?;
        }
        Err(EgressError::TooManyRedirects)
    }

    /// One request to one checked target.
    async fn exchange(
        &self,
        request: &Request,
        terms: &Terms<'_>,
    ) -> Result<reqwest::Response, EgressError> {
        let target = self.locate(&request.url, terms.egress).await?;
        (terms.admit)(&target.host).map_err(EgressError::Denied)?;
        let client = self.client(&target).await?;
        let mut sent = client
            .request(request.method.clone(), request.url.clone())
            .headers(request.headers.clone());
        if let Some(body) = &request.body {
            sent = sent.body(body.clone());
        }
        let failed = |error: reqwest::Error| match cause(&error) {
            why if error.is_connect() => EgressError::Connection(target.host.clone(), why),
            // It was asked, and may have done what it was asked for.
            why => EgressError::BrokenOff(0, why),
        };
        sent.send().await.map_err(failed)
    }
}

fn redirects(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// The request that a redirect leads to. Another origin gets neither credentials nor anything with a secret.
fn led_on(
    from: Request,
    status: StatusCode,
    to: Url,
    holds_secret: &(dyn Fn(&str) -> bool + Sync),
) -> Result<Request, EgressError> {
    let Request { mut method, url, mut headers, mut body } = from;
    let becomes_get = match status.as_u16() {
        301 | 302 => method == Method::POST,
        303 => method != Method::HEAD,
        _ => false,
    };
    if becomes_get {
        (method, body) = (Method::GET, None);
        OF_BODY.iter().for_each(|name| drop(headers.remove(name)));
    }
    if to.origin() != url.origin() {
        if body.as_deref().is_some_and(|body| holds_secret(&String::from_utf8_lossy(body))) {
            return Err(EgressError::SecretRedirected(host_name(&to).unwrap_or_default()));
        }
        let is_kept = |name: &HeaderName, value: &header::HeaderValue| {
            ![header::AUTHORIZATION, header::COOKIE].contains(name)
                && !holds_secret(&String::from_utf8_lossy(value.as_bytes()))
        };
        let kept = headers.iter().filter(|(name, value)| is_kept(name, value));
        headers = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    }
    Ok(Request { method, url: to, headers, body })
}

/// The first cause of an error, without the address: that is in the message already.
pub(super) fn cause(error: &reqwest::Error) -> String {
    let root = root_cause(error);
    match root.downcast_ref::<reqwest::Error>() {
        Some(_) => "unknown cause".to_owned(),
        None => root.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: &str = "https://api.example.org/a";

    fn request(method: Method, body: Option<&str>) -> Request {
        let headers = [
            ("authorization", "Bearer open"),
            ("cookie", "a=b"),
            ("x-key", "hunter22"),
            ("accept", "text/plain"),
            ("content-type", "text/plain"),
        ];
        let headers = headers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        Request {
            method,
            url: FROM.parse().unwrap(),
            headers: headers.into_iter().collect(),
            body: body.map(Into::into),
        }
    }

    type Led = (Method, Vec<String>, Option<Vec<u8>>);

    fn led(from: Request, status: u16, to: &str) -> Result<Led, EgressError> {
        let holds_secret = |text: &str| text.contains("hunter22");
        let status = StatusCode::from_u16(status).unwrap();
        let led = led_on(from, status, to.parse().unwrap(), &holds_secret)?;
        let mut names: Vec<_> = led.headers.keys().map(ToString::to_string).collect();
        names.sort();
        Ok((led.method, names, led.body))
    }

    /// TO-73
    #[test]
    fn a_redirect_changes_the_method_as_browsers_do() {
        let table = [
            (Method::POST, 301, Method::GET, false),
            (Method::POST, 302, Method::GET, false),
            (Method::PUT, 302, Method::PUT, true),
            (Method::PUT, 303, Method::GET, false),
            (Method::DELETE, 303, Method::GET, false),
            (Method::HEAD, 303, Method::HEAD, true),
            (Method::POST, 307, Method::POST, true),
            (Method::PATCH, 308, Method::PATCH, true),
        ];

        for (method, status, then, keeps_body) in table {
            let (now, names, body) =
                led(request(method.clone(), Some("x")), status, "https://api.example.org/b")
                    .unwrap();
            assert_eq!((now, body.is_some()), (then, keeps_body), "{method} {status}");
            assert_eq!(names.contains(&"content-type".to_owned()), keeps_body, "{method} {status}");
            assert!(names.contains(&"authorization".to_owned()));
        }
    }

    /// TO-73, MV-46: another origin is another host, scheme or port.
    #[test]
    fn another_origin_gets_no_credentials() {
        for to in [
            "https://other.example.org/",
            "http://api.example.org/",
            "https://api.example.org:8443/",
        ] {
            let (_, names, body) = led(request(Method::POST, Some("x")), 307, to).unwrap();
            assert_eq!(names, ["accept", "content-type"], "{to}");
            assert_eq!(body.as_deref(), Some(&b"x"[..]));

            let kept = led(request(Method::PUT, Some("a hunter22 b")), 302, to);
            assert!(matches!(kept, Err(EgressError::SecretRedirected(_))), "{kept:?}");
            let dropped = led(request(Method::POST, Some("a hunter22 b")), 302, to).unwrap();
            assert_eq!((dropped.0, dropped.2), (Method::GET, None));
        }
        let same =
            led(request(Method::POST, Some("hunter22")), 308, "https://api.example.org:443/b");
        assert_eq!(same.unwrap().1.len(), 5);
    }
}
