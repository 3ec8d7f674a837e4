//! YAML text as a tree in which every node knows its place.
//!
//! Deserializing straight into structs would stop at the first fault. The tree keeps what could
//! be read, so that one pass over it reports every fault of the file.

use std::{
    collections::HashMap,
    fs,
    io::{self, Read},
    path::Path,
};

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span, StrInput};

use super::problem::{Position, Problem};

pub(crate) const MAX_BYTES: u64 = 1024 * 1024;

/// The most nodes of a file, aliases counted as often as they are used.
const MAX_NODES: usize = 10_000;

/// A value with its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Position,
    pub(crate) value: Value,
    /// How many nodes there are in it, itself included.
    size: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// Nothing: stands for the default.
    Null,
    /// A word. Without quotes it may mean a number or a truth value.
    Scalar {
        text: String,
        quoted: bool,
    },
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) at: Position,
    pub(crate) value: Node,
}

impl Node {
    pub(crate) fn null() -> Self {
        Self { at: Position::START, value: Value::Null, size: 1 }
    }
}

/// Reads a file whole. `None` if there is none.
pub(crate) fn read_file(path: &Path) -> Result<Option<String>, Problem> {
    let whole = |reason: &str| Problem::of_file(path, reason);
    let unreadable = |error: io::Error| whole(&format!("cannot be read: {error}"));
    match fs::metadata(path) {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Err(whole("is not a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    }
    let mut bytes = Vec::new();
    fs::File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(whole("is larger than 1 MiB"));
    }
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let good = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
        let last = good.rsplit('\n').next().unwrap_or_default();
        let at =
            Position { line: good.matches('\n').count() + 1, column: last.chars().count() + 1 };
        at.problem(&path.display().to_string(), "", "is not UTF-8")
    })
}

/// Parses the one document of a file. What could not be understood is in `problems`.
pub(crate) fn parse(text: &str, name: &str, problems: &mut Vec<Problem>) -> Node {
    let mut builder = Builder {
        events: Parser::new_from_str(text),
        name,
        path: Vec::new(),
        anchors: HashMap::new(),
        nodes: 0,
        problems,
    };
    builder.document().unwrap_or_else(|problem| {
        builder.problems.push(problem);
        Node::null()
    })
}

struct Builder<'text, 'run> {
    events: Parser<'text, StrInput<'text>>,
    name: &'run str,
    /// The way to the present node, in pieces such as `server`, `.port`, `[3]`.
    path: Vec<String>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    problems: &'run mut Vec<Problem>,
}

impl<'text> Builder<'text, '_> {
    fn next(&mut self) -> Result<(Event<'text>, Position), Problem> {
        match self.events.next() {
            Some(Ok((event, span))) => Ok((event, start(&span))),
            Some(Err(error)) => {
                let at = Position { line: error.marker().line(), column: error.marker().col() + 1 };
                Err(self.fault(at, format!("syntax: {}", error.info())))
            }
            None => Ok((Event::StreamEnd, Position::START)),
        }
    }

    fn document(&mut self) -> Result<Node, Problem> {
        let mut document = None;
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(document.unwrap_or_else(Node::null)),
                (Event::DocumentStart(..), at) if document.is_some() => {
                    return Err(self.fault(at, "only one document is allowed"));
                }
                (Event::DocumentStart(..), _) => {
                    let first = self.next()?;
                    document = Some(self.node(first)?);
                }
                _ => {}
            }
        }
    }

    fn node(&mut self, (event, at): (Event<'text>, Position)) -> Result<Node, Problem> {
        let (value, anchor, tagged) = match event {
            Event::Alias(anchor) => return self.alias(anchor, at),
            Event::Scalar(text, style, anchor, tag) => {
                let quoted = style != ScalarStyle::Plain;
                let value = if !quoted && matches!(&*text, "" | "~" | "null" | "Null" | "NULL") {
                    Value::Null
                } else {
                    let text = text.into_owned();
                    Value::Scalar { text, quoted }
                };
                (value, anchor, tag.is_some())
            }
            Event::SequenceStart(_, anchor, tag) => (self.list()?, anchor, tag.is_some()),
            Event::MappingStart(_, anchor, tag) => (self.map()?, anchor, tag.is_some()),
            _ => return Err(self.fault(at, "a value is missing")),
        };
        if tagged {
            self.report(at, "tags are not supported");
        }
        let inner: usize = match &value {
            Value::List(items) => items.iter().map(|item| item.size).sum(),
            Value::Map(entries) => entries.iter().map(|entry| entry.value.size).sum(),
            _ => 0,
        };
        self.count(1, at)?;
        let node = Node { at, value, size: inner + 1 };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn alias(&mut self, anchor: usize, at: Position) -> Result<Node, Problem> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return Err(self.fault(at, "an alias inside of what it stands for"));
        };
        self.count(node.size, at)?;
        Ok(node)
    }

    /// A few lines of aliases can stand for billions of nodes: those used count, not those written.
    fn count(&mut self, more: usize, at: Position) -> Result<(), Problem> {
        self.nodes += more;
        if self.nodes > MAX_NODES {
            return Err(self.fault(at, "too many values, aliases counted in full"));
        }
        Ok(())
    }

    fn list(&mut self) -> Result<Value, Problem> {
        let mut items = Vec::new();
        loop {
            let next = self.next()?;
            if matches!(next.0, Event::SequenceEnd) {
                return Ok(Value::List(items));
            }
            self.path.push(format!("[{}]", items.len()));
            items.push(self.node(next)?);
            self.path.pop();
        }
    }

    fn map(&mut self) -> Result<Value, Problem> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let next = self.next()?;
            let key = match &next.0 {
                Event::MappingEnd => return Ok(Value::Map(entries)),
                Event::Scalar(text, ..) => Some(text.clone().into_owned()),
                _ => None,
            };
            let at = next.1;
            let Some(key) = key else {
                self.node(next)?;
                self.report(at, "a key must be a word");
                let value = self.next()?;
                self.node(value)?;
                continue;
            };
            self.path.push(if self.path.is_empty() { key.clone() } else { format!(".{key}") });
            let first = entries.iter().find(|entry| entry.key == key);
            let first = first.map(|entry| entry.at.line);
            if let Some(line) = first {
                self.report(at, &format!("given twice, first on line {line}"));
            }
            let value = self.next()?;
            let value = self.node(value)?;
            self.path.pop();
            if first.is_none() {
                entries.push(Entry { key, at, value });
            }
        }
    }

    fn fault(&self, at: Position, reason: impl Into<String>) -> Problem {
        at.problem(self.name, &self.path.concat(), reason)
    }

    /// Goes on after what could not be understood.
    fn report(&mut self, at: Position, reason: &str) {
        let problem = self.fault(at, reason);
        self.problems.push(problem);
    }
}

fn start(span: &Span) -> Position {
    Position { line: span.start.line(), column: span.start.col() + 1 }
}
