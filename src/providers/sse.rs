//! Server-sent events, from bytes that arrive in any pieces.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its place in the stream; empty if the server gave none.
    pub(crate) id: String,
    /// Its type; empty if the server gave none.
    pub(crate) name: String,
    /// Its data lines, joined.
    pub(crate) data: String,
}

impl Event {
    fn clear(&mut self) {
        self.id.clear();
        self.name.clear();
        self.data.clear();
    }
}

/// Cuts a stream into events. It only holds state, so a reader that is dropped between two pieces
/// loses nothing but what it did not read.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    /// The last byte was a carriage return: a line feed after it belongs to the same line end.
    after_return: bool,
    past_first_line: bool,
    /// Its room serves all events, one after the other.
    event: Event,
    has_data: bool,
    /// The event has ended: the next line begins another.
    ended: bool,
}

impl Parser {
    /// Takes bytes as far as they complete an event, and gives that. None: all are taken.
    pub(crate) fn next(&mut self, bytes: &mut &[u8]) -> Option<&Event> {
        while let [first, rest @ ..] = *bytes {
            let after_return = std::mem::take(&mut self.after_return);
            if after_return && *first == b'\n' {
                *bytes = rest;
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (line, ending) = bytes.split_at(end.unwrap_or(bytes.len()));
            let [ending, rest @ ..] = ending else {
                self.line.extend_from_slice(line);
                *bytes = ending;
                break;
            };
            self.after_return = *ending == b'\r';
            *bytes = rest;
            if self.end_line(line) {
                return Some(&self.event);
            }
        }
        None
    }

    /// Gives the event at the end of a stream that was not closed by an empty line.
    pub(crate) fn finish(&mut self) -> Option<&Event> {
        if !self.line.is_empty() {
            self.end_line(&[]);
        }
        self.end_event().then_some(&self.event)
    }

    /// Takes the rest of a line. Returns whether it ends an event.
    fn end_line(&mut self, rest: &[u8]) -> bool {
        if self.line.is_empty() {
            return self.take_line(rest);
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(rest);
        let has_ended = self.take_line(&line);
        // Its room serves the next line.
        line.clear();
        self.line = line;
        has_ended
    }

    fn take_line(&mut self, bytes: &[u8]) -> bool {
        if std::mem::take(&mut self.ended) {
            self.event.clear();
        }
        let line = String::from_utf8_lossy(bytes);
        let line = if !std::mem::replace(&mut self.past_first_line, true) {
            line.strip_prefix('\u{feff}').unwrap_or(&line)
        } else {
            &line
        };
        if line.is_empty() {
            return self.end_event();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => value.clone_into(&mut self.event.id),
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // Comments have an empty field; when to come back is for clients to know.
            _ => {}
        }
        false
    }

    /// Returns whether there is one: without data it is none.
    fn end_event(&mut self) -> bool {
        self.ended = true;
        std::mem::take(&mut self.has_data)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event(name: &str, data: &str) -> Event {
        Event { name: name.into(), data: data.into(), ..Event::default() }
    }

    fn read(pieces: &[&[u8]]) -> Vec<Event> {
        let mut parser = Parser::default();
        let mut events = Vec::new();
        for piece in pieces {
            let mut rest = *piece;
            while let Some(event) = parser.next(&mut rest) {
                events.push(event.clone());
            }
            assert!(rest.is_empty());
        }
        events.extend(parser.finish().cloned());
        events
    }

    /// SE-117
    #[test]
    fn comments_and_unknown_fields_are_skipped() {
        let events =
            read(&[b"\xef\xbb\xbf: hello\n\nid: 7\nretry: 5\nevent: a\ndata: 1\n\nevent: b\n\n"]);

        let numbered = Event { id: "7".into(), ..event("a", "1") };
        assert_eq!(events, [numbered]);
    }

    #[test]
    fn data_lines_are_joined_and_lose_one_space() {
        let events = read(&[b"data: one\ndata:  two\ndata:three\ndata\n\n"]);

        assert_eq!(events, [event("", "one\n two\nthree\n")]);
    }

    #[test]
    fn the_last_event_needs_no_empty_line() {
        assert_eq!(read(&[b"data: 1\n\ndata: 2"]), [event("", "1"), event("", "2")]);
    }

    proptest! {
        #[test]
        fn the_split_of_the_bytes_does_not_matter(
            events in prop::collection::vec(("[a-z]{0,5}", "[ -~äö€😀]{0,12}(\n[a-z:]{0,4}){0,2}"), 0..6),
            ending in prop::sample::select(vec!["\n", "\r", "\r\n"]),
            comment in any::<bool>(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let mut wire = String::new();
            for (name, data) in &events {
                if comment {
                    wire += &format!(": keep alive{ending}");
                }
                wire += &format!("event: {name}{ending}");
                for line in data.split('\n') {
                    wire += &format!("data: {line}{ending}");
                }
                wire += ending;
            }
            let bytes = wire.as_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();

            let expected: Vec<Event> = events.iter().map(|(name, data)| event(name, data)).collect();
            prop_assert_eq!(read(&pieces), expected);
        }
    }
}
