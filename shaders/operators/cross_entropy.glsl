// Labels of cross-entropy, and which of them count.
#ifndef CROSS_ENTROPY_GLSL
#define CROSS_ENTROPY_GLSL

int label_of(uint batch, uint position) {
    uint element = batch * push.labels_strides[0] + position * push.labels_strides[1];
    return labels[base_bytes(BINDING_CROSS_ENTROPY_LABELS) / 4 + element];
}

bool counts(uint label) { return label < push.features && label != push.ignore_label; }

#endif
