# SPDX-License-Identifier: MIT
"""Names of properties that patterns may use: [[:name:]], and pairs of names for \\p{name}."""

POSIX = ("alnum alpha ascii blank cntrl digit graph lower print punct space upper xdigit word").split()


def pairs(text):
    return [(name, None) if "=" not in name else tuple(name.split("=")) for name in text.split()]


CATEGORIES = pairs("""
Any=Any Assigned=Assigned C=Other Cc=Control Cf=Format Cn=Unassigned Co=Private_Use Cs=Surrogate
L=Letter LC=Cased_Letter Ll=Lowercase_Letter Lm=Modifier_Letter Lo=Other_Letter Lt=Titlecase_Letter
Lu=Uppercase_Letter M=Mark Mc=Spacing_Mark Me=Enclosing_Mark Mn=Nonspacing_Mark N=Number
Nd=Decimal_Number Nl=Letter_Number No=Other_Number P=Punctuation Pc=Connector_Punctuation
Pd=Dash_Punctuation Pe=Close_Punctuation Pf=Final_Punctuation Pi=Initial_Punctuation
Po=Other_Punctuation Ps=Open_Punctuation S=Symbol Sc=Currency_Symbol Sk=Modifier_Symbol
Sm=Math_Symbol So=Other_Symbol Z=Separator Zl=Line_Separator Zp=Paragraph_Separator
Zs=Space_Separator Alnum=Alnum Alpha=Alpha Blank=Blank Cntrl=Cntrl Digit=Digit Graph=Graph
Lower=Lower Print=Print Punct=Punct Space=Space Upper=Upper XDigit=XDigit Word=Word ASCII=ASCII
""")

SCRIPTS = pairs("""
Adlm=Adlam Aghb=Caucasian_Albanian Ahom=Ahom Arab=Arabic Armi=Imperial_Aramaic Armn=Armenian
Avst=Avestan Bali=Balinese Bamu=Bamum Bass=Bassa_Vah Batk=Batak Beng=Bengali Bhks=Bhaiksuki
Bopo=Bopomofo Brah=Brahmi Brai=Braille Bugi=Buginese Buhd=Buhid Cakm=Chakma
Cans=Canadian_Aboriginal Cari=Carian Cham=Cham Cher=Cherokee Chrs=Chorasmian Copt=Coptic
Cpmn=Cypro_Minoan Cprt=Cypriot Cyrl=Cyrillic Deva=Devanagari Diak=Dives_Akuru Dogr=Dogra
Dsrt=Deseret Dupl=Duployan Egyp=Egyptian_Hieroglyphs Elba=Elbasan Elym=Elymaic Ethi=Ethiopic
Gara=Garay Geor=Georgian Glag=Glagolitic Gong=Gunjala_Gondi Gonm=Masaram_Gondi Goth=Gothic
Gran=Grantha Grek=Greek Gujr=Gujarati Gukh=Gurung_Khema Guru=Gurmukhi Hang=Hangul Hani=Han
Hano=Hanunoo Hatr=Hatran Hebr=Hebrew Hira=Hiragana Hluw=Anatolian_Hieroglyphs
Hmng=Pahawh_Hmong Hmnp=Nyiakeng_Puachue_Hmong Hung=Old_Hungarian Ital=Old_Italic Java=Javanese
Kali=Kayah_Li Kana=Katakana Kawi=Kawi Khar=Kharoshthi Khmr=Khmer Khoj=Khojki
Kits=Khitan_Small_Script Knda=Kannada Krai=Kirat_Rai Kthi=Kaithi Lana=Tai_Tham Laoo=Lao Latn=Latin
Lepc=Lepcha Limb=Limbu Lina=Linear_A Linb=Linear_B Lisu=Lisu Lyci=Lycian Lydi=Lydian Mahj=Mahajani
Maka=Makasar Mand=Mandaic Mani=Manichaean Marc=Marchen Medf=Medefaidrin Mend=Mende_Kikakui
Merc=Meroitic_Cursive Mero=Meroitic_Hieroglyphs Mlym=Malayalam Modi=Modi Mong=Mongolian Mroo=Mro
Mtei=Meetei_Mayek Mult=Multani Mymr=Myanmar Nagm=Nag_Mundari Nand=Nandinagari
Narb=Old_North_Arabian Nbat=Nabataean Newa=Newa Nkoo=Nko Nshu=Nushu Ogam=Ogham Olck=Ol_Chiki
Onao=Ol_Onal Orkh=Old_Turkic Orya=Oriya Osge=Osage Osma=Osmanya Ougr=Old_Uyghur Palm=Palmyrene
Pauc=Pau_Cin_Hau Perm=Old_Permic Phag=Phags_Pa Phli=Inscriptional_Pahlavi Phlp=Psalter_Pahlavi
Phnx=Phoenician Plrd=Miao Prti=Inscriptional_Parthian Qaac=Qaac Qaai=Qaai Rjng=Rejang
Rohg=Hanifi_Rohingya Runr=Runic Samr=Samaritan Sarb=Old_South_Arabian Saur=Saurashtra
Sgnw=SignWriting Shaw=Shavian Shrd=Sharada Sidd=Siddham Sind=Khudawadi Sinh=Sinhala Sogd=Sogdian
Sogo=Old_Sogdian Sora=Sora_Sompeng Soyo=Soyombo Sund=Sundanese Sunu=Sunuwar Sylo=Syloti_Nagri
Syrc=Syriac Tagb=Tagbanwa Takr=Takri Tale=Tai_Le Talu=New_Tai_Lue Taml=Tamil Tang=Tangut
Tavt=Tai_Viet Telu=Telugu Tfng=Tifinagh Tglg=Tagalog Thaa=Thaana Thai=Thai Tibt=Tibetan Tirh=Tirhuta
Tnsa=Tangsa Todr=Todhri Toto=Toto Tutg=Tulu_Tigalari Ugar=Ugaritic Vaii=Vai Vith=Vithkuqi
Wara=Warang_Citi Wcho=Wancho Xpeo=Old_Persian Xsux=Cuneiform Yezi=Yezidi Yiii=Yi
Zanb=Zanabazar_Square Zinh=Inherited Zyyy=Common Zzzz=Unknown
""")

BINARY = pairs("""
AHex=ASCII_Hex_Digit Alphabetic=Alphabetic Bidi_C=Bidi_Control CI=Case_Ignorable Cased=Cased
CWCF=Changes_When_Casefolded CWCM=Changes_When_Casemapped CWL=Changes_When_Lowercased
CWT=Changes_When_Titlecased CWU=Changes_When_Uppercased DI=Default_Ignorable_Code_Point
Dash=Dash Dep=Deprecated Dia=Diacritic EBase=Emoji_Modifier_Base EComp=Emoji_Component
EMod=Emoji_Modifier EPres=Emoji_Presentation Emoji=Emoji ExtPict=Extended_Pictographic
Ext=Extender Gr_Base=Grapheme_Base Gr_Ext=Grapheme_Extend Gr_Link=Grapheme_Link Hex=Hex_Digit
Hyphen=Hyphen IDC=ID_Continue IDS=ID_Start IDSB=IDS_Binary_Operator IDST=IDS_Trinary_Operator
Ideo=Ideographic Join_C=Join_Control LOE=Logical_Order_Exception Lowercase=Lowercase Math=Math
NChar=Noncharacter_Code_Point OAlpha=Other_Alphabetic ODI=Other_Default_Ignorable_Code_Point
OGr_Ext=Other_Grapheme_Extend OIDC=Other_ID_Continue OIDS=Other_ID_Start OLower=Other_Lowercase
OMath=Other_Math OUpper=Other_Uppercase PCM=Prepended_Concatenation_Mark
Pat_Syn=Pattern_Syntax Pat_WS=Pattern_White_Space QMark=Quotation_Mark Radical=Radical
RI=Regional_Indicator SD=Soft_Dotted STerm=Sentence_Terminal Term=Terminal_Punctuation
UIdeo=Unified_Ideograph Uppercase=Uppercase VS=Variation_Selector WSpace=White_Space
XIDC=XID_Continue XIDS=XID_Start
""")
