//! A key's name, kept beside what is known of it where it is short, as most are.

use std::fmt;
use std::ops::Deref;

/// Longest name without an allocation of its own: what makes both kinds equally large.
const SHORT: usize = 22;

/// See the module.
#[derive(Clone)]
pub(crate) struct Name(Kept);

#[derive(Clone)]
enum Kept {
    Short(u8, [u8; SHORT]),
    Long(Box<[u8]>),
}

const _: () = assert!(size_of::<Name>() == 24);

impl From<&[u8]> for Name {
    fn from(name: &[u8]) -> Self {
        let mut bytes = [0; SHORT];
        Self(match bytes.get_mut(..name.len()) {
            Some(place) => {
                place.copy_from_slice(name);
                Kept::Short(name.len() as u8, bytes)
            }
            None => Kept::Long(name.into()),
        })
    }
}

impl Deref for Name {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Kept::Short(len, bytes) => bytes.get(..usize::from(*len)).unwrap_or_default(),
            Kept::Long(bytes) => bytes,
        }
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Name {}

impl fmt::Debug for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(self).fmt(formatter)
    }
}
