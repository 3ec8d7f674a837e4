//! Order: the direction of a scan or a list, and the window of a list that is wanted.

/// The direction of a scan or a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Smallest key first.
    Rising,
    /// Largest key first.
    Falling,
}

/// The part of a list that is wanted, by the places of its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window<Place> {
    /// Rising is the smallest place first.
    pub order: Order,
    /// Only what comes after this place.
    pub after: Option<Place>,
    /// So many of the first are wanted only as a number.
    pub skip: usize,
    /// So many places at most, with those that are skipped.
    pub most: usize,
    /// What is wanted is counted to one more than this.
    pub counted: usize,
}

impl<Place> Window<Place> {
    /// The same window where places are told otherwise.
    pub fn map<Other>(&self, place: impl FnOnce(&Place) -> Other) -> Window<Other> {
        let Self { order, ref after, skip, most, counted } = *self;
        Window { order, after: after.as_ref().map(place), skip, most, counted }
    }
}

impl<Place: PartialOrd> Window<Place> {
    /// A place is in it, as far as it begins.
    pub(crate) fn reaches(&self, place: &Place) -> bool {
        self.after.as_ref().is_none_or(|after| match self.order {
            Order::Rising => place > after,
            Order::Falling => place < after,
        })
    }
}

/// The wanted part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<Place> {
    /// In the order of the list.
    pub places: Vec<Place>,
    /// So many come before these; no more than were to be skipped.
    pub skipped: usize,
    /// How many there are in the whole list; at least those of the part, and no more than were to be counted.
    pub total: usize,
}

impl<Place: Ord + Clone> Part<Place> {
    /// This part of a list with the part of it that others have, of which the window is asked for: one list.
    pub fn joined<Error>(
        mut self,
        window: &Window<Place>,
        others: impl FnOnce(&Window<Place>) -> Result<Self, Error>,
    ) -> Result<Self, Error> {
        // Each of those here may come before one there that was skipped.
        let skip = window.skip.saturating_sub(self.places.len());
        let others = others(&Window { skip, ..window.clone() })?;
        self.places.extend(others.places);
        self.skipped = others.skipped;
        self.total += others.total;
        Ok(self.within(window))
    }

    /// What of these places a window shows, in the order of the list.
    pub fn within(mut self, window: &Window<Place>) -> Self {
        self.places.sort_unstable();
        if window.order == Order::Falling {
            self.places.reverse();
        }
        self.places.truncate(window.most.saturating_sub(self.skipped));
        self.total = self.total.min(window.counted + 1).max(self.skipped + self.places.len());
        self
    }
}

impl<Place> Part<Place> {
    /// The same part where places are told otherwise, those that are places there.
    pub fn filter_map<Other>(self, place: impl FnMut(Place) -> Option<Other>) -> Part<Other> {
        let Self { places, skipped, total } = self;
        Part { places: places.into_iter().filter_map(place).collect(), skipped, total }
    }
}

impl<Place> Default for Part<Place> {
    fn default() -> Self {
        Self { places: Vec::new(), skipped: 0, total: 0 }
    }
}
