//! Lists: the part that is wanted of the rows that there are.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, HashMap, HashSet},
    ops::ControlFlow,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hivewright_actors::{
    clock::Timestamp,
    order::{Order, Part, Window},
    storage::{Storage, StorageError},
    store::{reads::Range, records::Record},
    task::{Task, ended, query::TaskQuery},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{error::ApiResult, query::Page};
use crate::api::reply::{MOST_COUNTED, Rows};

/// The wanted part of rows that are all at hand: of things that there are never many of.
pub(in crate::http) fn page<T: Serialize>(
    rows: impl IntoIterator<Item = T>,
    page: &Page,
    id: impl Fn(&T) -> String,
) -> ApiResult<Rows<T>> {
    let (mut found, mut places) = (Vec::new(), Vec::new());
    for row in rows {
        let shown = serde_json::to_value(&row)?;
        let value = shown.get(page.sort.field).cloned().unwrap_or_default();
        places.push(Place { falling: page.sort.falling, value, id: id(&row) });
        found.push(Some(row));
    }
    let (wanted, next_cursor) = wanted(places, page);
    let total = found.len();
    let data = wanted.into_iter().filter_map(|row| found[row].take()).collect();
    Ok(Rows { data, total, next_cursor })
}

/// Which rows of these places are on a page, in its order, and the cursor behind them. It knows no rows, so that sorting is
/// compiled once and not for each list.
fn wanted(places: Vec<Place>, page: &Page) -> (Vec<usize>, Option<String>) {
    let mut places: Vec<(usize, Place)> = places.into_iter().enumerate().collect();
    places.sort_by(|(_, one), (_, other)| one.cmp(other));
    let start = match Place::after(page) {
        None => page.offset.min(places.len()),
        // Rows that came since do not move it.
        Some(after) => places.partition_point(|(_, place)| *place <= after),
    };
    let end = start.saturating_add(page.limit).min(places.len());
    let last = places[start..end].last().filter(|_| end < places.len());
    let cursor = last.map(|(_, Place { value, id, .. })| page.cursor(json!([value, id])));
    (places[start..end].iter().map(|(row, _)| *row).collect(), cursor)
}

/// Nothing before something, numbers by size, texts by their characters.
fn compare(a: &Value, b: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) | Value::Object(_) => 4,
    };
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap_or(0.0), b.as_f64().unwrap_or(0.0));
            a.total_cmp(&b)
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

/// The wanted part of rows whose keys are in the order of the list. It looks at as many as lists are
/// counted, and at those of the page; it holds no more than the page. Blocks.
pub(in crate::http) fn scan<R: Record + DeserializeOwned, T>(
    storage: &dyn Storage,
    range: Range<R>,
    page: &Page,
    read: impl Fn(&[u8], R) -> Option<T>,
) -> Result<Rows<T>, StorageError> {
    let order = page.order();
    let mut total = 0;
    range.walk(storage, order, &mut |key, row| {
        total += usize::from(row.is_ok_and(|row| read(key, row).is_some()));
        if total > MOST_COUNTED { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    let after = page.after.as_ref().and_then(Value::as_str);
    let range = match after.and_then(|key| URL_SAFE_NO_PAD.decode(key).ok()) {
        Some(key) if page.sort.falling => range.before(&key),
        Some(key) => range.behind(&key),
        None => range,
    };
    let (mut skip, mut data, mut last, mut goes_on) = (page.offset, Vec::new(), None, false);
    range.walk(storage, order, &mut |key, row| {
        let Some(row) = row.ok().and_then(|row| read(key, row)) else {
            return ControlFlow::Continue(());
        };
        if skip > 0 {
            skip -= 1;
            return ControlFlow::Continue(());
        }
        if data.len() == page.limit {
            goes_on = true;
            return ControlFlow::Break(());
        }
        last = Some(URL_SAFE_NO_PAD.encode(key));
        data.push(row);
        ControlFlow::Continue(())
    })?;
    Ok(Rows {
        data,
        total,
        next_cursor: last.filter(|_| goes_on).map(|place| page.cursor(json!(place))),
    })
}

/// Finds the wanted part of rows that come in any order, each with what it is sorted by. Of all rows
/// it holds only the places of those that the page and its offset need.
pub(in crate::http) struct Gathering {
    falling: bool,
    after: Option<Place>,
    offset: usize,
    most: usize,
    /// The first of the list so far, the last of them on top.
    best: BinaryHeap<Place>,
    total: usize,
    /// Rows after the cursor.
    beyond: usize,
}

/// What comes first is smaller: by what the list is sorted by, then by the id, both the same way round.
pub(in crate::http) struct Place {
    falling: bool,
    pub(in crate::http) value: Value,
    pub(in crate::http) id: String,
}

impl Place {
    /// The last row of the page before.
    fn after(page: &Page) -> Option<Self> {
        let place = page.after.as_ref()?;
        let (value, id) = (place.get(0)?.clone(), place.get(1)?.as_str()?.to_owned());
        Some(Self { falling: page.sort.falling, value, id })
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = compare(&self.value, &other.value).then_with(|| self.id.cmp(&other.id));
        if self.falling { order.reverse() } else { order }
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Place {}

impl Gathering {
    pub(in crate::http) fn new(page: &Page) -> Self {
        Self {
            falling: page.sort.falling,
            after: Place::after(page),
            offset: page.offset,
            most: page.offset.saturating_add(page.limit),
            best: BinaryHeap::new(),
            total: 0,
            beyond: 0,
        }
    }

    /// There is a row that is wanted, of this moment.
    pub(in crate::http) fn see(&mut self, at: Timestamp, id: &str) {
        self.see_by(at.0.into(), id);
    }

    /// The same of rows that are sorted by something else.
    pub(in crate::http) fn see_by(&mut self, value: Value, id: &str) {
        self.total += 1;
        let place = Place { falling: self.falling, value, id: id.to_owned() };
        if self.after.as_ref().is_some_and(|after| place <= *after) {
            return;
        }
        self.beyond += 1;
        self.best.push(place);
        if self.best.len() > self.most {
            self.best.pop();
        }
    }

    /// There are the tasks that are wanted, open and ended. Those that are open are shown to `look`, also if they are not wanted.
    pub(in crate::http) fn see_tasks(
        &mut self,
        storage: &dyn Storage,
        wanted: &TaskQuery,
        mut look: impl FnMut(&Task),
    ) -> Result<(), StorageError> {
        let mut open = HashSet::new();
        Range::<Task>::all().for_each(storage, &mut |task| {
            look(&task);
            if wanted.holds(&task) {
                self.see(task.created_at, task.id.as_str());
                open.insert(task.id);
            }
        })?;
        // One that has ended since was seen above.
        let place =
            |place: &Place| Some((Timestamp(place.value.as_u64()?), place.id.as_str().into()));
        let part = ended::ended(storage, wanted, &self.window(place), open)?;
        self.see_part(part, |(at, id)| (at.0.into(), id.to_string()));
        Ok(())
    }

    /// What is to be asked of a sorted list whose rows come behind those that were seen, or between them.
    pub(in crate::http) fn window<T>(&self, place: impl Fn(&Place) -> Option<T>) -> Window<T> {
        Window {
            order: if self.falling { Order::Falling } else { Order::Rising },
            after: self.after.as_ref().and_then(place),
            // Each row that was seen may come before one that is skipped.
            skip: self.offset.saturating_sub(self.beyond),
            // One more tells that the list goes on.
            most: self.most.saturating_add(1),
            counted: MOST_COUNTED,
        }
    }

    /// There are the rows of a part of such a list, each with what it is sorted by and its id.
    pub(in crate::http) fn see_part<T>(
        &mut self,
        part: Part<T>,
        row: impl Fn(T) -> (Value, String),
    ) {
        let Part { places, skipped, total } = part;
        self.offset -= skipped;
        self.most -= skipped;
        self.total += total.saturating_sub(places.len());
        for place in places {
            let (value, id) = row(place);
            self.see_by(value, &id);
        }
    }

    /// Rows from this moment on change neither the page nor the count that is shown.
    pub(in crate::http) fn is_settled(&self, at: Timestamp) -> bool {
        let at = Value::from(at.0);
        let is_last = |last: &Place| {
            let order = compare(&last.value, &at);
            if self.falling { order.is_gt() } else { order.is_lt() }
        };
        self.total > MOST_COUNTED
            && self.beyond > self.most
            && self.best.peek().is_some_and(is_last)
    }

    /// The rows of the page, which another walk finds by their ids.
    pub(in crate::http) fn rows_of<T>(
        self,
        page: &Page,
        walk: impl FnOnce(&mut HashMap<String, Option<T>>) -> Result<(), StorageError>,
    ) -> Result<Rows<T>, StorageError> {
        let ids = self.rows(page, |id| Ok(Some(id.to_owned())))?;
        let mut found = ids.data.iter().map(|id| (id.clone(), None)).collect();
        walk(&mut found)?;
        let data = ids.data.iter().filter_map(|id| found.remove(id)?).collect();
        Ok(Rows { data, total: ids.total, next_cursor: ids.next_cursor })
    }

    /// The rows of the page, each looked up by its id.
    pub(in crate::http) fn rows<T>(
        self,
        page: &Page,
        mut row: impl FnMut(&str) -> Result<Option<T>, StorageError>,
    ) -> Result<Rows<T>, StorageError> {
        self.rows_by(page, |_, id| row(id))
    }

    /// The rows of the page, each looked up by its moment and its id.
    pub(in crate::http) fn rows_at<T>(
        self,
        page: &Page,
        mut row: impl FnMut(Timestamp, &str) -> Result<Option<T>, StorageError>,
    ) -> Result<Rows<T>, StorageError> {
        self.rows_by(page, |value, id| row(Timestamp(value.as_u64().unwrap_or_default()), id))
    }

    fn rows_by<T>(
        self,
        page: &Page,
        mut row: impl FnMut(&Value, &str) -> Result<Option<T>, StorageError>,
    ) -> Result<Rows<T>, StorageError> {
        let goes_on = self.beyond > self.most;
        let places = self.best.into_sorted_vec();
        let mut data = Vec::new();
        let mut last = None;
        for Place { value, id, .. } in places.into_iter().skip(self.offset) {
            data.extend(row(&value, &id)?);
            last = Some(json!([value, id]));
        }
        Ok(Rows {
            data,
            total: self.total,
            next_cursor: last.filter(|_| goes_on).map(|place| page.cursor(place)),
        })
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::api::page::Sort;

    fn page(limit: usize, offset: usize, after: Option<Value>, falling: bool) -> Page {
        Page { list: String::new(), limit, offset, sort: Sort { field: "at", falling }, after }
    }

    /// The ids of a page over 100,000 rows that come in no order, and the place that its cursor names.
    fn gathered(page: &Page) -> (Vec<String>, usize, bool) {
        let mut gathering = Gathering::new(page);
        for number in 0..100_000_u64 {
            // Every number once, far from its neighbours.
            let number = number * 7_919 % 100_000;
            gathering.see(Timestamp(number / 2), &format!("{number:05}"));
            assert!(gathering.best.len() <= page.offset + page.limit);
        }
        let rows = gathering.rows(page, |id| Ok(Some(id.to_owned()))).unwrap();
        (rows.data, rows.total, rows.next_cursor.is_some())
    }

    /// OP-02: whatever there is, no more is held than the page needs.
    #[test]
    fn a_page_of_many_rows_is_found_without_holding_them() {
        let first = gathered(&page(3, 0, None, false));
        let next = gathered(&page(3, 0, Some(json!([1, "00002"])), false));
        let skipped = gathered(&page(2, 10_000, None, false));
        let falling = gathered(&page(2, 0, None, true));
        let last = gathered(&page(5, 0, Some(json!([1, "00002"])), true));

        let ids = |ids: &[&str]| -> Vec<String> { ids.iter().map(|id| (*id).to_owned()).collect() };
        assert_eq!(first, (ids(&["00000", "00001", "00002"]), 100_000, true));
        assert_eq!(next.0, ids(&["00003", "00004", "00005"]));
        assert_eq!(skipped.0, ids(&["10000", "10001"]));
        assert_eq!(falling.0, ids(&["99999", "99998"]));
        assert_eq!((last.0, last.2), (ids(&["00001", "00000"]), false));
    }
}
