package member

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
)

// Packets are sealed by this package instead of the library. So it sees their contents first, and
// refuses those that the library would decompress or index without a bound.

// keyring has the keys of the gossip. The first seals, all of them open.
type keyring []sealKey

// sealKey is one key, and the bytes that name it in front of packets.
type sealKey struct {
	id   [keyIDSize]byte
	aead cipher.AEAD
	raw  []byte
}

const keyIDSize = 4

// sealVersion begins every packet.
const sealVersion = 1

// newKeyring returns the ring of keys of 16, 24 or 32 bytes.
func newKeyring(keys [][]byte) (keyring, error) {
	var ring keyring
	for _, raw := range keys {
		block, err := aes.NewCipher(raw)
		if err != nil {
			return nil, fmt.Errorf("gossip key: %w", err)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, fmt.Errorf("gossip key: %w", err)
		}
		sum := sha256.Sum256(append([]byte("rota gossip key"), raw...))
		ring = append(ring, sealKey{[keyIDSize]byte(sum[:]), aead, raw})
	}
	return ring, nil
}

// find returns the key with an id.
func (r keyring) find(id []byte) (sealKey, bool) {
	for _, k := range r {
		if string(id) == string(k.id[:]) {
			return k, true
		}
	}
	return sealKey{}, false
}

// seal returns a packet for members of the cluster.
func (r keyring) seal(cluster string, plain []byte) []byte {
	k := r[0]
	out := make([]byte, 1+keyIDSize+k.aead.NonceSize(), 1+keyIDSize+k.aead.NonceSize()+len(plain)+k.aead.Overhead())
	out[0] = sealVersion
	copy(out[1:], k.id[:])
	nonce := out[1+keyIDSize:]
	rand.Read(nonce) // never fails
	return k.aead.Seal(out, nonce, plain, []byte(cluster))
}

var errSealed = errors.New("the packet is not sealed with a key of this cluster's gossip")

// open returns the plain text of a packet that a member of the cluster has sealed.
func (r keyring) open(cluster string, packet []byte) ([]byte, error) {
	if len(packet) < 1+keyIDSize || packet[0] != sealVersion {
		return nil, errSealed
	}
	k, ok := r.find(packet[1 : 1+keyIDSize])
	body := packet[1+keyIDSize:]
	if !ok || len(body) < k.aead.NonceSize() {
		return nil, errSealed
	}
	plain, err := k.aead.Open(nil, body[:k.aead.NonceSize()], body[k.aead.NonceSize():], []byte(cluster))
	if err != nil {
		return nil, errSealed
	}
	return plain, nil
}
