//! A DNS server that answers as a test wants, and remembers what it was asked.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex},
};

use tokio::{net::UdpSocket, task::JoinHandle};

const HEADER: usize = 12;
const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;

/// The addresses of a name, for one lookup after another; the last ones stay.
type Answers = Vec<Vec<IpAddr>>;

#[derive(Default)]
struct Zone {
    names: HashMap<String, Answers>,
    /// How often each name was asked for, by type.
    asked: HashMap<(String, u16), usize>,
}

/// A running server. Dropping it stops it.
pub(crate) struct NameServer {
    zone: Arc<Mutex<Zone>>,
    task: JoinHandle<()>,
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl NameServer {
    pub(crate) async fn start_at(at: &str) -> Self {
        let socket = UdpSocket::bind(at).await.unwrap();
        let zone = Arc::<Mutex<Zone>>::default();
        let known = zone.clone();
        let task = actix::spawn(async move {
            let mut packet = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut packet).await {
                let reply = known.lock().unwrap().reply(&packet[..length]);
                socket.send_to(&reply, from).await.unwrap();
            }
        });
        Self { zone, task }
    }

    /// What a name leads to from now on: at the first lookup, at the second, and so on.
    pub(crate) fn lead(&self, name: &str, lookups: &[&[&str]]) {
        let parsed = |list: &&[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
        let mut zone = self.zone.lock().unwrap();
        zone.names.insert(name.to_owned(), lookups.iter().map(parsed).collect());
        zone.asked.retain(|(asked, _), _| asked != name);
    }

    /// How often a name was looked up since it leads where it does.
    pub(crate) fn lookups(&self, name: &str) -> usize {
        let zone = self.zone.lock().unwrap();
        zone.asked.get(&(name.to_owned(), TYPE_A)).copied().unwrap_or_default()
    }
}

impl Zone {
    /// The reply to a query of one question. A name without an address of a type exists all the same.
    fn reply(&mut self, query: &[u8]) -> Vec<u8> {
        let (name, kind, end) = question(query);
        let asked = self.asked.entry((name.clone(), kind)).or_default();
        let answers = self.names.get(&name).map(Vec::as_slice).unwrap_or_default();
        let now = answers.get(*asked).or(answers.last()).map(Vec::as_slice).unwrap_or_default();
        *asked += 1;
        let is_asked = |address: &&IpAddr| match address {
            IpAddr::V4(_) => kind == TYPE_A,
            IpAddr::V6(_) => kind == TYPE_AAAA,
        };
        let found: Vec<_> = now.iter().filter(is_asked).collect();
        // A response to a recursive query, without an error: one question, so many answers.
        let counts = [0x81, 0x80, 0, 1, 0, u8::try_from(found.len()).unwrap(), 0, 0, 0, 0];
        let mut reply = [&query[..2], &counts, &query[HEADER..end]].concat();
        for address in found {
            let bytes = match address {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            // The name of the question, in the class of the internet, to be forgotten at once.
            reply.extend([0xc0, HEADER as u8]);
            reply.extend(kind.to_be_bytes());
            reply.extend([0, 1, 0, 0, 0, 0, 0, bytes.len() as u8]);
            reply.extend(bytes);
        }
        reply
    }
}

/// The name and the type that a query asks for, and where its question ends.
fn question(query: &[u8]) -> (String, u16, usize) {
    let (mut labels, mut at) = (Vec::new(), HEADER);
    while query[at] != 0 {
        let end = at + 1 + usize::from(query[at]);
        labels.push(String::from_utf8_lossy(&query[at + 1..end]).to_lowercase());
        at = end;
    }
    (labels.join("."), u16::from_be_bytes([query[at + 1], query[at + 2]]), at + 5)
}
