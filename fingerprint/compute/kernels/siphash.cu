// SipHash-2-4 (Aumasson and Bernstein 2012) of texts with the key of pandas' `hash_array`: names on a device are those on a host.
//
// `borders` (n + 1,): where each text begins in `text`, which is UTF-8.

INSIDE u64 turned(u64 x, int by) { return x << by | x >> (64 - by); }

struct Sip {
  u64 a, b, c, d;
};

INSIDE void rounds(Sip *v, int times) {
  for (; times; times--) {
    v->a += v->b, v->b = turned(v->b, 13) ^ v->a, v->a = turned(v->a, 32);
    v->c += v->d, v->d = turned(v->d, 16) ^ v->c;
    v->a += v->d, v->d = turned(v->d, 21) ^ v->a;
    v->c += v->b, v->b = turned(v->b, 17) ^ v->c, v->c = turned(v->c, 32);
  }
}

// Up to eight bytes, the first the lowest: texts begin anywhere, so a word is put together.
INSIDE u64 word(const u8 *at, int bytes) {
  u64 out = 0;
  for (int i = 0; i < bytes; i++) out |= (u64)at[i] << (8 * i);
  return out;
}

INSIDE void take(Sip *v, u64 block) {
  v->d ^= block;
  rounds(v, 2);
  v->a ^= block;
}

INSIDE u64 hash(const u8 *at, i64 size) {
  const u64 low = 0x3736353433323130, high = 0x3635343332313938;  // "0123456789123456"
  Sip v = {low ^ 0x736f6d6570736575, high ^ 0x646f72616e646f6d, low ^ 0x6c7967656e657261, high ^ 0x7465646279746573};
  i64 whole = size / 8 * 8;
  for (i64 i = 0; i < whole; i += 8) take(&v, word(at + i, 8));
  take(&v, word(at + whole, (int)(size - whole)) | (u64)size << 56);
  v.c ^= 0xff;
  rounds(&v, 4);
  return v.a ^ v.b ^ v.c ^ v.d;
}

// What pandas does with a hash in the end: SplitMix64's finish.
INSIDE u64 spread(u64 x) {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
  x = (x ^ x >> 27) * 0x94D049BB133111EB;
  return x ^ x >> 31;
}

KERNEL siphash(i64 n, const u8 *text, const i64 *borders, u64 *out) {
  EACH(row, n) out[row] = spread(hash(text + borders[row], borders[row + 1] - borders[row]));
}
