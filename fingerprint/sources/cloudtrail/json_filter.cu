// Filters records: a strict reader of JSON, one thread a record, that passes on only the members that have a column.
//
// It walks the record once. What it cannot read as strict JSON, or finds where the columns of another reader might be filled
// otherwise, is not *plain* (docs/explanation/reading.md has the rules and their reasons): such a record is read on the host. Of a
// plain one it writes a line of JSON with the members that have columns, byte for byte as they were, and in place of
// `requestParameters` what is made of them.
//
// The members are a tree of nodes (`member_tree` in cudf_reader.py): node 0 is the record; the children of a node lie side by side.

enum Kind {
  GROUP, TEXT, SHOWN, FLAG, TIME, BEGUN, NAME, SOURCE, SORT, RECIPIENT, ACCOUNT, MESSAGE, LOGIN, GIVEN_ACCOUNT, GIVEN_ROLE,
  PARAMETERS, RESOURCES, LIST, KEYS, ITEMS
};

struct Nodes {
  const int *kind, *first, *count, *begin, *size;  // (nodes,) of each: kind, first child, children; where its key lies in `keys`
  const u8 *keys;
};

const int LONGEST_TEXT = 1024;    // bytes: past that the host cuts characters
const int LONGEST_NUMBER = 200;   // characters: no number of so many, with an exponent of two digits, is infinite
const int DEEPEST = 60;           // arrays and objects around one another
const int MEMBERS_DEEPEST = 6;    // groups around one another
const i64 NO_TIME = (i64)1 << 63;
const i64 EARLIEST = 946684800;   // seconds: 2000
const i64 LATEST = 7258118400;    // 2200

// What strings hold beside plain characters, gathered while they are read.
enum { ESCAPE = 1, ODD = 2, LONE = 4, WIDE = 8 };  // a backslash; \u or \/; half of a pair; beyond ASCII

struct Span {
  const u8 *at, *end;
};

struct Reader {
  const u8 *at, *end;
  int seen;  // of the above
};

// Writes to `out`, or only counts where there is none.
struct Writer {
  u8 *out;
  i64 size;
  u8 last;
};

struct Found {
  Span name, recipient, account, given_account, given_role, parameters, resources;
  int parameters_node;
  i64 time, begun;
  bool failed;
  u64 members;  // which nodes were met: one bit each
};

// --- characters ---

INSIDE i64 length(Span s) { return s.end - s.at; }
INSIDE bool digit(int c) { return c >= '0' && c <= '9'; }
INSIDE bool blank(int c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
INSIDE bool hexadecimal(int c) { return digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'f'); }

INSIDE bool same(const u8 *at, const u8 *end, const char *text) {
  for (; *text; at++, text++)
    if (at == end || *at != (u8)*text) return false;
  return at == end;
}

INSIDE bool ends(Span text, const char *with) {
  int size = 0;
  while (with[size]) size++;
  return length(text) >= size && same(text.end - size, text.end, with);
}

INSIDE bool equal(Span one, const u8 *other, i64 size) {
  if (length(one) != size) return false;
  for (i64 i = 0; i < size; i++)
    if (one.at[i] != other[i]) return false;
  return true;
}

INSIDE int peek(Reader *r) { return r->at < r->end ? *r->at : -1; }

INSIDE bool took(Reader *r, int c) {
  if (peek(r) != c) return false;
  r->at++;
  return true;
}

INSIDE void blanks(Reader *r) {
  while (blank(peek(r))) r->at++;
}

INSIDE void put(Writer *w, int c) {
  if (w->out) w->out[w->size] = (u8)c;
  w->last = (u8)c;
  w->size++;
}

INSIDE void write(Writer *w, const char *text) {
  for (; *text; text++) put(w, *text);
}

INSIDE void copy(Writer *w, Span s) {
  for (const u8 *at = s.at; at < s.end; at++) put(w, *at);
}

INSIDE void close_group(Writer *w) {
  if (w->last == ',') w->size--;
  put(w, '}');
}

// --- strict JSON ---

INSIDE bool unicode(Reader *r) {
  const u8 *at = r->at;
  if (r->end - at < 4) return false;
  for (int i = 0; i < 4; i++)
    if (!hexadecimal(at[i])) return false;
  r->seen |= ODD;
  if ((at[0] | 32) == 'd' && (at[1] == '8' || at[1] == '9' || (at[1] | 32) >= 'a')) r->seen |= LONE;
  r->at += 4;
  return true;
}

INSIDE bool escape(Reader *r) {
  r->seen |= ESCAPE;
  switch (r->at < r->end ? *r->at++ : 0) {
    case '"': case '\\': case 'b': case 'f': case 'n': case 'r': case 't': return true;
    case '/': r->seen |= ODD; return true;
    case 'u': return unicode(r);
  }
  return false;
}

// A string; `out` is what lies between its quotes, as it was written.
ONCE bool string(Reader *r, Span *out) {
  if (!took(r, '"')) return false;
  out->at = r->at;
  while (r->at < r->end) {
    int c = *r->at++;
    if (c == '"') {
      out->end = r->at - 1;
      return true;
    }
    if (c < 32) return false;
    if (c >= 128) r->seen |= WIDE;
    if (c == '\\' && !escape(r)) return false;
  }
  return false;
}

INSIDE bool digits(Reader *r, int most) {
  int count = 0;
  for (; digit(peek(r)); r->at++) count++;
  return count > 0 && count <= most;
}

ONCE bool number(Reader *r) {
  const u8 *begin = r->at;
  took(r, '-');
  if (!took(r, '0') && !digits(r, LONGEST_NUMBER)) return false;
  if (took(r, '.') && !digits(r, LONGEST_NUMBER)) return false;
  if (peek(r) == 'e' || peek(r) == 'E') {
    r->at++;
    if (!took(r, '+')) took(r, '-');
    if (!digits(r, 2)) return false;
  }
  return r->at - begin <= LONGEST_NUMBER;
}

INSIDE bool literal(Reader *r, const char *text) {
  for (; *text; text++)
    if (!took(r, *text)) return false;
  return true;
}

INSIDE bool scalar(Reader *r) {
  Span ignored;
  switch (peek(r)) {
    case '"': return string(r, &ignored);
    case 't': return literal(r, "true");
    case 'f': return literal(r, "false");
    case 'n': return literal(r, "null");
  }
  return number(r);
}

INSIDE bool key(Reader *r, Span *out) {
  blanks(r);
  if (!string(r, out)) return false;
  blanks(r);
  if (!took(r, ':')) return false;
  blanks(r);
  return true;
}

// Any value, passed over. Which of the brackets around it are arrays is one bit each.
ONCE bool value(Reader *r) {
  u64 arrays = 0;
  int depth = 0;
  Span ignored;
  for (;;) {
    blanks(r);
    bool array = peek(r) == '[', object = peek(r) == '{';
    if (array || object) {
      if (++depth > DEEPEST) return false;
      arrays = arrays << 1 | (array ? 1 : 0);
      r->at++;
      blanks(r);
      if (peek(r) != (array ? ']' : '}')) {
        if (object && !key(r, &ignored)) return false;
        continue;
      }
    } else if (!scalar(r)) {
      return false;
    }
    for (;;) {  // a value has ended, and so may what is around it
      if (!depth) return true;
      blanks(r);
      if (took(r, ',')) {
        if (!(arrays & 1) && !key(r, &ignored)) return false;
        break;
      }
      if (!took(r, arrays & 1 ? ']' : '}')) return false;
      arrays >>= 1;
      depth--;
    }
  }
}

INSIDE bool passed_over(Reader *r, Span *out) {
  out->at = r->at;
  bool fine = value(r);
  out->end = r->at;
  return fine;
}

// --- times ---

INSIDE int two(const u8 *at) { return (at[0] - '0') * 10 + at[1] - '0'; }

INSIDE int days_of(int year, int month) {
  bool leap = (year % 4 == 0 && year % 100) || year % 400 == 0;
  return month == 2 ? 28 + leap : month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

// Days since 1970 (Hinnant, "chrono-compatible low-level date algorithms"): years begin in March.
INSIDE i64 day_number(int year, int month, int day) {
  year -= month <= 2;
  i64 era = year / 400, of_era = year - era * 400;
  i64 of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

// `2023-07-10T11:42:18Z` and no other way of writing -> microseconds; NO_TIME for what is none, or not of this time.
INSIDE i64 moment(Span s) {
  const char *form = "0000-00-00T00:00:00Z";
  if (length(s) != 20) return NO_TIME;
  for (int i = 0; i < 20; i++)
    if (form[i] == '0' ? !digit(s.at[i]) : s.at[i] != (u8)form[i]) return NO_TIME;
  int year = two(s.at) * 100 + two(s.at + 2), month = two(s.at + 5), day = two(s.at + 8);
  int hour = two(s.at + 11), minute = two(s.at + 14), second = two(s.at + 17);
  if (month < 1 || month > 12 || day < 1 || day > days_of(year, month)) return NO_TIME;
  if (hour > 23 || minute > 59 || second > 59) return NO_TIME;
  i64 seconds = ((day_number(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
  return seconds < EARLIEST || seconds >= LATEST ? NO_TIME : seconds * 1000000;
}

// --- the accounts that are named ---

// Text with each occurrence of the record's own account left out, as `replace` leaves it out: from the left, none overlapping.
struct Without {
  const u8 *at, *end;
  Span own;
};

INSIDE bool starts_own(Without *t) {
  i64 size = length(t->own);
  if (!size || t->end - t->at < size) return false;
  Span here = {t->at, t->at + size};
  return equal(here, t->own.at, size);
}

INSIDE int glance(Without *t) {
  while (starts_own(t)) t->at += length(t->own);
  return t->at < t->end ? *t->at : -1;
}

INSIDE bool passed(Without *t, int c) {
  if (glance(t) != c) return false;
  t->at++;
  return true;
}

INSIDE bool twelve_digits(Without *t, u8 *account) {
  for (int i = 0; i < 12; i++) {
    int c = glance(t);
    if (!digit(c)) return false;
    account[i] = (u8)c;
    t->at++;
  }
  return true;
}

// What follows an account: a colon or a quote, which a text in a text has behind backslashes.
INSIDE bool account_ends(Without *t) {
  while (passed(t, '\\')) {}
  int c = glance(t);
  return c == ':' || c == '"';
}

// The account of an ARN that begins here: arn:aws[a-z-]*:[^:"]*:[^:"]*:([0-9]{12})\\*[:"]
ONCE bool arn(Without t, u8 *account) {
  for (const char *c = "arn:aws"; *c; c++)
    if (!passed(&t, *c)) return false;
  for (int c = glance(&t); (c >= 'a' && c <= 'z') || c == '-'; c = glance(&t)) t.at++;
  if (!passed(&t, ':')) return false;
  for (int field = 0; field < 2; field++) {
    for (int c = glance(&t); c >= 0 && c != ':' && c != '"'; c = glance(&t)) t.at++;
    if (!passed(&t, ':')) return false;
  }
  return twelve_digits(&t, account) && account_ends(&t);
}

INSIDE bool names_any(Span text) {
  for (const u8 *at = text.at; text.end - at >= 7; at++)
    if (*at == 'a' && same(at, at + 7, "arn:aws")) return true;
  return false;
}

// Whether a bare number may be an account ("[0-9]{12}\\*[:"]): the host reads which member has it.
ONCE bool has_bare_number(Span text, Span own) {
  u8 ignored[12];
  Without t = {text.at, text.end, own};
  while (glance(&t) >= 0) {
    if (*t.at++ != '"') continue;
    Without number = t;
    if (twelve_digits(&number, ignored) && account_ends(&number)) return true;
  }
  return false;
}

// The last account in ARNs that is not the own one; false where the host has to read bare numbers.
INSIDE bool last_account(Span text, Span own, u8 *account, bool *found) {
  Span none = {0, 0};
  if (!names_any(text) && !has_bare_number(text, none)) return true;  // as it was written
  if (has_bare_number(text, own)) return false;
  u8 named[12];
  Without t = {text.at, text.end, own};
  for (; glance(&t) >= 0; t.at++) {
    if (*t.at != 'a' || !arn(t, named)) continue;
    for (int i = 0; i < 12; i++) account[i] = named[i];
    *found = true;
  }
  return true;
}

// A number of twelve digits once the own account is left out of it.
INSIDE bool other_number(Span text, Span own, u8 *account) {
  Without t = {text.at, text.end, own};
  return twelve_digits(&t, account) && glance(&t) < 0;
}

INSIDE bool only_digits(Span s) {
  for (const u8 *at = s.at; at < s.end; at++)
    if (!digit(*at)) return false;
  return true;
}

INSIDE bool only_word(Span s) {
  for (const u8 *at = s.at; at < s.end; at++)
    if (!digit(*at) && !((*at | 32) >= 'a' && (*at | 32) <= 'z') && *at != '-' && *at != '_') return false;
  return true;
}

// One of `resources`: an object with at most one account, which is a word or missing, and at most one ARN.
INSIDE bool resource(Reader *r, Span *account, Span *arn) {
  Span name;
  account->at = account->end = arn->at = arn->end = 0;
  if (!took(r, '{')) return false;
  blanks(r);
  if (took(r, '}')) return true;
  do {
    if (!key(r, &name)) return false;
    if (same(name.at, name.end, "ARN")) {
      if (arn->at || !string(r, arn) || length(*arn) > LONGEST_TEXT) return false;
    } else if (!same(name.at, name.end, "accountId")) {
      if (!value(r)) return false;
    } else if (account->at || !string(r, account) || !only_word(*account)) {
      return false;
    }
    blanks(r);
  } while (took(r, ','));
  return took(r, '}');
}

// The first account of the resources that is not the own one, if any, and the ARN of the first; false where they are not plain.
INSIDE bool of_resources(Span text, Span own, u8 *account, bool *found, Span *arn) {
  Reader r = {text.at, text.end, 0};
  Span of_one, arn_of_one;
  bool first = true;
  took(&r, '[');
  blanks(&r);
  if (took(&r, ']')) return true;
  do {
    blanks(&r);
    if (!resource(&r, &of_one, &arn_of_one)) return false;
    if (first) *arn = arn_of_one;
    first = false;
    if (!*found && of_one.at) *found = other_number(of_one, own, account);
    blanks(&r);
  } while (took(&r, ','));
  return !(r.seen & ESCAPE);
}

// --- what is made of the parameters ---

INSIDE int child(const Nodes *t, int node, Span name) {
  for (int each = t->first[node]; each < t->first[node] + t->count[node]; each++)
    if (equal(name, t->keys + t->begin[each], t->size[each])) return each;
  return -1;
}

// Which resource they name: the child of their node that comes first, its place among its siblings, and its text.
struct Named {
  Span name, text;
  int place;
};

// The rest of a list, after one of its values.
INSIDE bool list_ends(Reader *r) {
  for (blanks(r); took(r, ','); blanks(r))
    if (!value(r)) return false;
  return took(r, ']');
}

// One of the items: an object with at most one id.
INSIDE bool item(Reader *r, Span *id) {
  Span name;
  if (!took(r, '{')) return false;
  blanks(r);
  if (took(r, '}')) return true;
  do {
    if (!key(r, &name)) return false;
    if (!same(name.at, name.end, "instanceId")) {
      if (!value(r)) return false;
    } else if (id->at || !string(r, id)) {
      return false;
    }
    blanks(r);
  } while (took(r, ','));
  return took(r, '}');
}

// The id of the first of `{"items": [{"instanceId": ...}]}`, where the object holds nothing else.
INSIDE bool first_item(Reader *r, Span *id) {
  Span name;
  if (!key(r, &name) || !same(name.at, name.end, "items") || !took(r, '[')) return false;
  blanks(r);
  if (!took(r, ']') && !(item(r, id) && list_ends(r))) return false;
  blanks(r);
  return took(r, '}');
}

// The first name that a structure holds, if any: it is passed over, and its beginning read again.
INSIDE bool first_name(Reader *r, int kind, Span *text) {
  Reader inside = {r->at, r->end, 0};
  if (!took(&inside, kind == LIST ? '[' : '{') || !value(r)) return false;
  blanks(&inside);
  if (took(&inside, kind == LIST ? ']' : '}')) return true;
  if (kind == LIST) return string(&inside, text);
  return (kind == KEYS ? key(&inside, text) : first_item(&inside, text)) && !(inside.seen & ESCAPE);
}

// A member that may name a resource. `met` has a bit for each that was met: twice is not plain, nor is what is no text.
INSIDE bool names_resource(Reader *r, Span name, int kind, int place, u64 met[2], Named *resource) {
  Span text = {0, 0};
  if (met[place >> 6] >> (place & 63) & 1) return false;
  met[place >> 6] |= (u64)1 << (place & 63);
  if (peek(r) == 'n') return literal(r, "null");
  if (!(kind == TEXT ? string(r, &text) : first_name(r, kind, &text)) || length(text) > LONGEST_TEXT) return false;
  if (!text.at) return true;  // a structure without any
  if (!resource->text.at || place < resource->place) *resource = {name, text, place};
  return true;
}

// Their names, in their order, to `names`; and the resource. False where they are not plain, or may have been omitted.
INSIDE bool parameters(Span text, const Nodes *t, int node, Writer *names, Named *resource) {
  Reader r = {text.at, text.end, 0};
  Span name;
  u64 met[2] = {0, 0};
  if (!took(&r, '{')) return true;  // null, or none
  blanks(&r);
  if (took(&r, '}')) return true;
  bool first = true;
  do {
    r.seen = 0;
    if (!key(&r, &name) || r.seen & ESCAPE || same(name.at, name.end, "omitted")) return false;
    if (!first) put(names, ',');
    first = false;
    copy(names, name);
    int known = child(t, node, name);
    if (known < 0 ? !value(&r) : !names_resource(&r, name, t->kind[known], known - t->first[node], met, resource))
      return false;
    blanks(&r);
  } while (took(&r, ','));
  return true;
}

// The account that Identity Center gave a role of, where it is not the own one; false where it is no word.
INSIDE bool given_account(Found *f, Span own, u8 *account, bool *found) {
  Span given = f->given_account;
  if (!given.at || !f->given_role.at) return true;
  if (!only_word(given)) return false;
  *found = length(given) == 12 && only_digits(given) && !equal(given, own.at, length(own));
  for (int i = 0; *found && i < 12; i++) account[i] = given.at[i];
  return true;
}

INSIDE bool target(Found *f, u8 *account, bool *found, Span *arn) {
  Span own = f->recipient.at ? f->recipient : f->account;
  if (!only_word(own)) return false;
  if (f->resources.at && !(only_digits(own) && of_resources(f->resources, own, account, found, arn))) return false;
  if (!*found && f->parameters.at && !last_account(f->parameters, own, account, found)) return false;
  return *found || given_account(f, own, account, found);
}

INSIDE void named(Writer *w, Span name, Span text) {
  write(w, "\"resource\":\""), copy(w, name), put(w, '='), copy(w, text), write(w, "\",");
}

INSIDE void given(Writer *w, Span account, Span role) {
  write(w, "\"resource\":\"role_name="), copy(w, account), put(w, '/'), copy(w, role), write(w, "\",");
}

INSIDE bool made(const Nodes *t, Found *f, Writer *w) {
  u8 account[12];
  const u8 *arn_name = (const u8 *)"ARN";
  bool found = false;
  Span arn = {0, 0};
  Named resource = {};
  write(w, "\"requestParameters\":{\"names\":\"");
  if (!parameters(f->parameters, t, f->parameters_node, w, &resource)) return false;
  write(w, "\",");
  if (!target(f, account, &found, &arn)) return false;
  Span digits = {account, account + 12};
  if (found) write(w, "\"target\":\""), copy(w, digits), write(w, "\",");
  if (resource.text.at)
    named(w, resource.name, resource.text);
  else if (f->given_account.at && f->given_role.at)
    given(w, f->given_account, f->given_role);
  else if (arn.at)
    named(w, {arn_name, arn_name + 3}, arn);
  close_group(w);
  return true;
}

// --- the members ---

INSIDE void note(Found *f, int kind, Span text) {
  if (kind == NAME) f->name = text;
  if (kind == RECIPIENT) f->recipient = text;
  if (kind == ACCOUNT) f->account = text;
  if (kind == GIVEN_ACCOUNT) f->given_account = text;
  if (kind == GIVEN_ROLE) f->given_role = text;
  if (kind == MESSAGE && length(text)) f->failed = true;
  if (kind == LOGIN && same(text.at, text.end, "Failure")) f->failed = true;
}

// Insights are no events, neither are some network activity, activity audit logs from outside AWS, nor notices of S3, whose
// source has a colon: the host says so.
INSIDE bool of_event(int kind, Span text) {
  if (kind == SORT)
    return !ends(text, "Insight") && !ends(text, "NetworkActivity") && !ends(text, "VpceEvent") &&
           !ends(text, "ActivityAuditLog");
  if (kind == SOURCE)
    for (const u8 *at = text.at; at < text.end; at++)
      if (*at == ':') return false;
  return true;
}

INSIDE bool fits(int kind, Span text, int seen) {
  if (seen & (ODD | LONE) || !of_event(kind, text)) return false;
  if (kind == SOURCE && seen & WIDE) return false;
  if (kind == FLAG) return same(text.at, text.end, "true") || same(text.at, text.end, "false");
  return kind == SHOWN || kind == MESSAGE || length(text) <= LONGEST_TEXT;
}

INSIDE bool timed(Found *f, int kind, Span text) {
  i64 time = moment(text);
  *(kind == TIME ? &f->time : &f->begun) = time;
  return time != NO_TIME;
}

INSIDE void member(Writer *w, Span name, Span whole) {
  put(w, '"'), copy(w, name), write(w, "\":"), copy(w, whole), put(w, ',');
}

// A member that is one value: what is missing is not written.
INSIDE bool leaf(Reader *r, Writer *w, Found *f, int kind, Span name) {
  Span text, whole = {r->at, r->at};
  if (peek(r) == 'n') return literal(r, "null");
  if (kind == FLAG && peek(r) != '"') {
    if (!literal(r, peek(r) == 't' ? "true" : "false")) return false;
  } else {
    r->seen = 0;
    if (!string(r, &text) || !fits(kind, text, r->seen)) return false;
    if ((kind == TIME || kind == BEGUN) && !timed(f, kind, text)) return false;
    note(f, kind, text);
  }
  whole.end = r->at;
  if (kind != LOGIN) member(w, name, whole);
  return true;
}

// One of the two that are not passed on, but made something of.
INSIDE bool matter(Reader *r, Found *f, int kind) {
  if (peek(r) == 'n') return literal(r, "null");
  if (peek(r) != (kind == PARAMETERS ? '{' : '[')) return false;
  r->seen = 0;
  Span *where = kind == PARAMETERS ? &f->parameters : &f->resources;
  return passed_over(r, where) && !(r->seen & (ODD | LONE));
}

// A member of a group, after its key. Returns the node whose members come next, -1 if none do, -2 if it is not plain.
INSIDE int entered(Reader *r, Writer *w, const Nodes *t, Found *f, int node, Span name) {
  if (node < 0) {
    r->seen = 0;
    return value(r) && !(r->seen & LONE) ? -1 : -2;
  }
  if (f->members >> node & 1) return -2;  // twice
  f->members |= (u64)1 << node;
  int kind = t->kind[node];
  if (kind == PARAMETERS) f->parameters_node = node;
  if (kind == PARAMETERS || kind == RESOURCES) return matter(r, f, kind) ? -1 : -2;
  if (kind != GROUP) return leaf(r, w, f, kind, name) ? -1 : -2;
  if (peek(r) == 'n') return literal(r, "null") ? -1 : -2;
  if (!took(r, '{')) return -2;
  put(w, '"'), copy(w, name), write(w, "\":{");
  return node;
}

// After a member, or at the beginning: true where another one follows. Groups that end here are closed.
INSIDE bool another(Reader *r, Writer *w, const Nodes *t, Found *f, int *depth, bool fresh, bool *fine) {
  for (;;) {
    blanks(r);
    if (took(r, '}')) {
      if (*depth == 0) {
        *fine = made(t, f, w) && (blanks(r), r->at == r->end);
        close_group(w);
        return false;
      }
      close_group(w);
      put(w, ',');
      (*depth)--, fresh = false;
    } else {
      *fine = fresh || took(r, ',');
      return *fine;
    }
  }
}

INSIDE bool record(Reader *r, Writer *w, const Nodes *t, Found *f) {
  int group[MEMBERS_DEEPEST], depth = 0;
  bool fresh = true, fine = took(r, '{');
  Span name;
  group[0] = 0;
  put(w, '{');
  while (fine && another(r, w, t, f, &depth, fresh, &fine)) {
    r->seen = 0;
    if (!key(r, &name) || r->seen & ESCAPE) return false;
    int next = entered(r, w, t, f, child(t, group[depth], name), name);
    fresh = next >= 0;
    if (next < -1 || (fresh && ++depth == MEMBERS_DEEPEST)) return false;
    if (fresh) group[depth] = next;
  }
  put(w, '\n');
  return fine && f->time != NO_TIME && length(f->name);
}

// --- the kernel ---

// text, borders (n + 1,): the records; longer ones than `longest` are not plain. kind ... keys: the nodes.
// plain, sizes, time, begun, failed (n,): whether a record is plain, the bytes of its line (0 if it is not), its times, whether
// it tells of a failure that may have no code.
// writing: whether the lines are written, to `out` at `places` (n,); else they are only measured.
KERNEL json_filter(i64 n, const u8 *text, const i64 *borders, i64 longest, const int *kind, const int *first, const int *count,
                   const int *begin, const int *size, const u8 *keys, u8 *plain, i64 *sizes, i64 *time, i64 *begun, u8 *failed,
                   i64 writing, u8 *out, const i64 *places) {
  const Nodes nodes = {kind, first, count, begin, size, keys};
  EACH(row, n) {
    if (writing && !plain[row]) continue;
    Reader r = {text + borders[row], text + borders[row + 1], 0};
    Writer w = {writing ? out + places[row] : 0, 0, 0};
    Found f = {};
    f.time = f.begun = NO_TIME;
    plain[row] = r.end - r.at <= longest && record(&r, &w, &nodes, &f);
    sizes[row] = plain[row] ? w.size : 0;
    time[row] = f.time;
    begun[row] = f.begun;
    failed[row] = f.failed;
  }
}
