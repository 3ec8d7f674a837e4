//! Takes secrets out of text before it leaves.

use std::{
    borrow::Cow,
    fmt,
    ops::Range,
    sync::{Arc, LazyLock},
};

use aho_corasick::{AhoCorasick, Input, MatchKind};
use zeroize::Zeroizing;

mod forms;
pub(crate) mod json;
mod shapes;
pub mod stream;
#[cfg(test)]
mod tests;

use forms::{Agreement, Form};
use stream::StreamScrubber;

/// Stands where a secret was.
pub const REDACTED: &str = "[REDACTED]";

/// So many bytes of a form are searched for; the rest of it is compared where they are found. So a
/// search costs the same for long values as for short ones.
const HEAD: usize = 8;

/// The end of a line inside a JSON string, in bytes.
const LONGEST_BREAK: usize = 4;
/// What is cut into lines is cut into no shorter ones.
const SHORTEST_LINE: usize = 60;

/// A word of a value is told by itself from this many characters on if it has a digit …
const TELLING: usize = 6;
/// … or from this many on.
const LONG: usize = 12;
/// The longest name that is made of words, in characters …
const LONGEST_NAME: usize = 40;
/// … and no name is made of more.
const MOST_WORDS: usize = 8;

/// A value that must not be seen, and what stands in its place.
#[derive(Clone)]
pub struct Mask {
    value: Arc<Zeroizing<Vec<u8>>>,
    key: Option<Arc<str>>,
    mark: Arc<str>,
}

static HIDDEN: LazyLock<Arc<str>> = LazyLock::new(|| REDACTED.into());

impl Mask {
    /// A value whose place is taken by [`REDACTED`].
    pub fn hidden(value: impl Into<Vec<u8>>) -> Self {
        Self::hide(Arc::new(Zeroizing::new(value.into())))
    }

    /// The same, for a value that others hold too.
    pub fn hide(value: Arc<Zeroizing<Vec<u8>>>) -> Self {
        Self { value, key: None, mark: HIDDEN.clone() }
    }

    /// A value of the vault, whose place is taken by its reference.
    pub fn reference(value: Arc<Zeroizing<Vec<u8>>>, key: &str) -> Self {
        Self { value, key: Some(key.into()), mark: format!("${{vault:{key}}}").into() }
    }

    /// The parts of a value that give it away: a name made of the words of a text holds them without
    /// what stood between them, and cut.
    pub fn words(&self) -> Vec<Self> {
        let value = String::from_utf8_lossy(&self.value);
        let words = value.split(|character: char| !character.is_alphanumeric());
        let tells = |word: &&str| {
            let length = word.chars().count();
            let has_digit = word.contains(|character: char| character.is_ascii_digit());
            length >= LONG || (length >= TELLING && has_digit)
        };
        let words = words.filter(tells).take(MOST_WORDS).map(|word| {
            let cut: String = word.chars().take(LONGEST_NAME).collect();
            Self { value: Arc::new(Zeroizing::new(cut.into_bytes())), ..self.clone() }
        });
        words.collect()
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.mark)
    }
}

/// Replaces known values in all their encodings, and what looks like a credential. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Scrubber(Arc<Known>);

#[derive(Debug)]
struct Known {
    masks: Vec<Mask>,
    /// Sorted by what they begin with.
    heads: Vec<Head>,
    /// None without known values.
    search: Option<AhoCorasick>,
    longest: usize,
}

#[derive(Debug)]
struct Head {
    bytes: Vec<u8>,
    /// With those whose whole beginning is a part of this one.
    forms: Vec<(usize, Form)>,
}

#[derive(Clone, Debug)]
struct Found {
    at: Range<usize>,
    mask: usize,
}

/// It knows no values, and replaces what looks like a credential.
impl Default for Scrubber {
    fn default() -> Self {
        Self::with(Vec::new())
    }
}

impl Scrubber {
    /// A scrubber of these values, replaced by [`REDACTED`].
    pub fn new<V: AsRef<str>>(values: impl IntoIterator<Item = V>) -> Self {
        Self::with(values.into_iter().map(|value| Mask::hidden(value.as_ref())).collect())
    }

    /// A scrubber of these values. Of equal ones the first counts.
    pub fn with(masks: Vec<Mask>) -> Self {
        let mut forms: Vec<(Vec<u8>, usize, Form)> = Vec::new();
        let mut longest = 0;
        for (number, mask) in masks.iter().enumerate() {
            let value = &mask.value;
            for (place, form) in Form::ALL.into_iter().enumerate() {
                let Some(length) = form.length(value) else { continue };
                let mut seen = Form::ALL[..place].iter();
                if !seen.any(|other| form.equals(*other, value)) {
                    // With the ends of lines.
                    longest = longest.max(length + (length / SHORTEST_LINE + 1) * 4);
                    let heads = form.heads(value, HEAD).into_iter();
                    forms.extend(heads.map(|head| (head, number, form)));
                }
            }
        }
        let heads = heads(forms);
        let search = (!heads.is_empty())
            .then(|| {
                AhoCorasick::builder()
                    .match_kind(MatchKind::LeftmostLongest)
                    .build(heads.iter().map(|head| &head.bytes))
                    .inspect_err(|error| tracing::error!(%error, "secrets cannot be looked for: texts may show them; stop the service, and have fewer secrets"))
                    .ok()
            })
            .flatten();
        Self(Arc::new(Known { masks, heads, search, longest }))
    }

    pub fn scrub<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.scrub_after(None, text)
    }

    /// The text without known values; what only looks like a credential stays.
    pub fn scrub_known<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let known = self.known(text);
        self.replace(text, known, Vec::new())
    }

    /// The text without known values that have no key; those of the vault stay.
    pub fn scrub_hidden<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let is_hidden = |found: &Found| self.0.masks[found.mask].key.is_none();
        let hidden = self.0.find(text).filter(is_hidden).collect();
        self.replace(text, hidden, Vec::new())
    }

    /// The longest form of any known value, in bytes.
    pub fn longest(&self) -> usize {
        self.0.longest
    }

    pub fn is_empty(&self) -> bool {
        self.0.heads.is_empty()
    }

    /// The beginning of a known value is in the text: cheaper to tell than whether the rest is.
    pub fn suspects(&self, text: &str) -> bool {
        self.0.all_heads(text).next().is_some()
    }

    pub fn knows(&self, text: &str) -> bool {
        self.0.find(text).next().is_some()
    }

    /// The key of a value of the vault that the text has in it.
    pub fn key_in(&self, text: &str) -> Option<&str> {
        let found = self.0.find(text);
        found.filter_map(|found| self.0.masks[found.mask].key.as_deref()).next()
    }

    pub fn stream(&self) -> StreamScrubber {
        StreamScrubber::new(self.clone())
    }

    fn scrub_after<'t>(&self, before: Option<char>, text: &'t str) -> Cow<'t, str> {
        let shapes = shapes::find(before, text).into_iter().map(|shape| shape.secret).collect();
        self.replace(text, self.known(text), shapes)
    }

    fn known(&self, text: &str) -> Vec<Found> {
        self.0.find(text).collect()
    }

    /// Puts the marks in place of the secrets. Where they overlap, the first of them, and of those
    /// the longest, stands for all; a known value is better than a shape.
    fn replace<'t>(
        &self,
        text: &'t str,
        known: Vec<Found>,
        shapes: Vec<Range<usize>>,
    ) -> Cow<'t, str> {
        let known = known.into_iter().map(|found| (found.at, &*self.0.masks[found.mask].mark));
        let mut secrets: Vec<(Range<usize>, &str)> = known.collect();
        secrets.extend(shapes.into_iter().map(|shape| (shape, REDACTED)));
        if secrets.is_empty() {
            return Cow::Borrowed(text);
        }
        secrets.sort_by_key(|(at, _)| at.start);
        let mut clean = String::with_capacity(text.len());
        let mut end = 0;
        for (at, mark) in secrets {
            if at.start >= end {
                clean.push_str(&text[end..at.start]);
                clean.push_str(mark);
            }
            end = end.max(at.end);
        }
        clean.push_str(&text[end..]);
        Cow::Owned(clean)
    }

    /// Where `text` can be cut so that no secret lies across the cut, whatever comes after it.
    fn safe_cut(&self, before: Option<char>, text: &str) -> usize {
        let cut = self.0.open(text).min(shapes::open(before, text));
        let shapes = shapes::find(before, text).into_iter();
        let known = self.known(text).into_iter().map(|found| found.at);
        around(cut, known.chain(shapes.map(|shape| shape.whole)))
    }

    /// The same for known values alone: where a shape does not end, these are still kept whole.
    fn known_cut(&self, text: &str) -> usize {
        let known = self.known(text).into_iter().map(|found| found.at);
        around(self.0.open(text), known)
    }

    /// The same where nothing looks like the beginning of a secret, but perhaps the very end of the text: most texts need
    /// no closer look. None if something does.
    fn harmless_cut(&self, text: &str) -> Option<usize> {
        let suspects = self.suspects(text) || shapes::suspects(text);
        (!suspects).then(|| self.0.beginning(text).min(shapes::beginning(text)))
    }
}

/// The last place up to `cut` that is inside of none of the spans.
fn around(mut cut: usize, spans: impl Iterator<Item = Range<usize>>) -> usize {
    let mut spans: Vec<_> = spans.collect();
    spans.sort_by_key(|span| std::cmp::Reverse(span.end));
    for span in spans {
        if span.start < cut && cut < span.end {
            cut = span.start;
        }
    }
    cut
}

impl Known {
    /// The values in the text; of those that start together the longest.
    fn find<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Found> + 'a {
        self.all_heads(text).filter_map(move |(at, head)| {
            let rest = &text.as_bytes()[at..];
            let whole = head.forms.iter().filter_map(|(mask, form)| {
                match form.agree(&self.masks[*mask].value, rest) {
                    Agreement::Whole(length) | Agreement::Open(Some(length)) => {
                        Some((length, *mask))
                    }
                    _ => None,
                }
            });
            // Of equal length, the first value given counts.
            let longest = whole.max_by_key(|(length, mask)| (*length, std::cmp::Reverse(*mask)));
            longest.map(|(length, mask)| Found { at: at..at + length, mask })
        })
    }

    /// The places at which a form may begin, by where they are; then those where a line ends before
    /// one can tell.
    fn all_heads<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (usize, &'a Head)> + 'a {
        let whole = self.heads_in(text.as_bytes()).map(|(at, head)| (at.start, head));
        whole.chain(self.broken_heads(text))
    }

    fn heads_in<'a>(&'a self, text: &[u8]) -> impl Iterator<Item = (Range<usize>, &'a Head)> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let found =
                self.search.as_ref()?.find(Input::new(text).range(from.min(text.len())..))?;
            from = found.start() + 1;
            Some((found.range(), self.heads.get(found.pattern().as_usize())?))
        })
    }

    /// Heads over the end of a line: only what stands directly around it is looked at.
    fn broken_heads<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (usize, &'a Head)> + 'a {
        let bytes = text.as_bytes();
        self.search.iter().flat_map(move |_| forms::breaks(text)).flat_map(move |line_end| {
            let near = |byte: &&u8| forms::is_encoded(byte);
            let before = bytes[..line_end.start].iter().rev().take(HEAD - 1);
            let before = before.take_while(near).count();
            let after = bytes[line_end.end..].iter().take(HEAD - 1).take_while(near).count();
            let start = line_end.start - before;
            let line_ends = [start..line_end.start, line_end.end..line_end.end + after];
            let joined = line_ends.map(|part| &bytes[part]).concat();
            let heads = self.heads_in(&joined);
            let broken = heads.filter(|(at, _)| at.start < before && before < at.end);
            broken.map(|(at, head)| (start + at.start, head)).collect::<Vec<_>>()
        })
    }

    /// The first place from which on the text is the beginning of a value; else its end.
    fn open(&self, text: &str) -> usize {
        let begun = self
            .all_heads(text)
            .filter(|(at, head)| {
                let rest = &text.as_bytes()[*at..];
                head.forms.iter().any(|(mask, form)| {
                    let agreement = form.agree(&self.masks[*mask].value, rest);
                    matches!(agreement, Agreement::Open(_))
                })
            })
            .map(|(at, _)| at)
            .min()
            .unwrap_or(text.len());
        begun.min(self.beginning(text))
    }

    /// The first place from which on the text may become a head; else its end.
    fn beginning(&self, text: &str) -> usize {
        let from = text.len().saturating_sub(HEAD - 1 + LONGEST_BREAK);
        let is_head = |tail: &[u8]| {
            let next = self.heads.partition_point(|head| *head.bytes < *tail);
            self.heads.get(next).is_some_and(|head| head.bytes.starts_with(tail))
        };
        let begins = |at: &usize| {
            let tail = &text.as_bytes()[*at..];
            is_head(tail) || joined(tail).is_some_and(|tail| is_head(&tail))
        };
        let mut places = (from..text.len()).filter(|at| text.is_char_boundary(*at));
        places.find(begins).unwrap_or(text.len())
    }
}

/// A text without the end of a line in it, be that whole or only begun.
fn joined(text: &[u8]) -> Option<Vec<u8>> {
    let at = text.iter().position(|byte| !forms::is_encoded(byte))?;
    let (before, rest) = (text.get(..at).filter(|before| !before.is_empty())?, at);
    match forms::past_break(text, rest) {
        None => Some(before.to_vec()),
        Some(next) if next > at => Some([before, &text[next..]].concat()),
        Some(_) => None,
    }
}

/// Puts forms together that begin alike.
fn heads(mut forms: Vec<(Vec<u8>, usize, Form)>) -> Vec<Head> {
    forms.sort_by(|one, other| one.0.cmp(&other.0));
    let mut heads: Vec<Head> = Vec::new();
    for (bytes, mask, form) in forms {
        match heads.last_mut().filter(|head| head.bytes == bytes) {
            Some(head) => head.forms.push((mask, form)),
            None => heads.push(Head { bytes, forms: vec![(mask, form)] }),
        }
    }
    // Only the longest head at a place is found, so it answers for the shorter ones.
    let is_short = |head: &&Head| head.bytes.len() < HEAD;
    let short = heads.iter().filter(is_short);
    let short: Vec<_> = short.map(|head| (head.bytes.clone(), head.forms.clone())).collect();
    for head in &mut heads {
        for (bytes, forms) in &short {
            if head.bytes.len() > bytes.len() && head.bytes.starts_with(bytes) {
                head.forms.extend(forms);
            }
        }
    }
    heads
}
